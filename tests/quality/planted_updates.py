"""Statements and what later replaces them, in seven languages: every affirmative form beside every form of update.

`{a}` is the value that was, `{b}` the one that is. `own` replaces in the statement's own words; `any` names both values
and nothing else, so it replaces whatever had the old one.
"""

from typing import Final, NamedTuple


class Said(NamedTuple):
    """A statement, and what says the same of another value from now on."""

    states: str
    now: str
    mine: bool = False
    """Who speaks says it of themselves: what others have done does not end it."""


class Language(NamedTuple):
    said: tuple[Said, ...]
    own: tuple[str, ...]
    """`{s}` is the statement with the new value, `{n}` the form that says now."""
    any: tuple[str, ...]
    mine: tuple[str, ...]
    """Likewise of who speaks."""
    denies: tuple[tuple[str, str], ...]
    """A statement, and what denies it."""
    values: tuple[tuple[str, str], ...] = (("Snowflake", "BigQuery"), ("Jenkins", "Argo CD"), ("Kestrel", "Plover"))


LANGUAGES: Final = {
    "en": Language(
        said=(
            Said("Our warehouse is {a}.", "Our warehouse is now {b}."),
            Said("The billing service runs on {a}.", "The billing service now runs on {b}."),
            Said("The reports are stored in {a}.", "The reports are now stored in {b}."),
            Said("We use {a}.", "We now use {b}."),
            Said("We deploy with {a}.", "We now deploy with {b}."),
            Said("The gateway is owned by {a}.", "The gateway is now owned by {b}."),
            Said("The owner of billing is {a}.", "The owner of billing is now {b}."),
            Said("The crawler talks to {a}.", "The crawler now talks to {b}."),
            Said("Our dashboards depend on {a}.", "Our dashboards now depend on {b}."),
            Said("I prefer {a}.", "I now prefer {b}.", mine=True),
        ),
        own=("{n}", "Update: {s}", "As of today {s}", "{s}, not {a}"),
        any=(
            "We switched from {a} to {b}.",
            "We have replaced {a} with {b}.",
            "{a} was replaced by {b} last week.",
            "{b} replaced {a}.",
            "We moved from {a} to {b} yesterday.",
            "{b} took over from {a}.",
            "We dropped {a} in favour of {b}.",
            "{a} has been deprecated in favor of {b}.",
            "We migrated to {b} from {a}.",
        ),
        mine=("I switched from {a} to {b}.", "I use {b} instead of {a}."),
        denies=(
            ("We use {a}.", "It is not so that we use {a}."),
            ("The api runs on {a}.", "The api does not run on {a}."),
            ("The api runs on {a}.", "It's not true that the api runs on {a}."),
            ("We use {a}.", "We no longer use {a}."),
            ("We use {a}.", "We use neither {a} nor {b}."),
            ("We use {a}.", "We don't use {a} anymore."),
            ("Our warehouse is {a}.", "Our warehouse is not {a}."),
            ("We use {a}.", "We stopped using {a}."),
        ),
    ),
    "de": Language(
        said=(
            Said("Unser Lagerhaus ist {a}.", "Unser Lagerhaus ist jetzt {b}."),
            Said("Der Abrechnungsdienst läuft auf {a}.", "Der Abrechnungsdienst läuft jetzt auf {b}."),
            Said("Wir nutzen {a}.", "Wir nutzen jetzt {b}."),
            Said("Wir deployen mit {a}.", "Wir deployen jetzt mit {b}."),
            Said("Die Berichte liegen in {a}.", "Die Berichte liegen nun in {b}."),
            Said("Die Datenbank heißt {a}.", "Die Datenbank heißt jetzt {b}."),
            Said("Ich bevorzuge {a}.", "Ich bevorzuge jetzt {b}.", mine=True),
        ),
        own=("{n}", "Update: {s}", "{s}, nicht mehr {a}"),
        any=(
            "Wir sind von {a} auf {b} umgestiegen.",
            "Wir haben {a} durch {b} ersetzt.",
            "{a} wurde durch {b} ersetzt.",
            "Wir haben letzte Woche von {a} zu {b} gewechselt.",
            "{b} ersetzt {a}.",
            "Wir nutzen {b} statt {a}.",
        ),
        mine=("Ich bin von {a} auf {b} umgestiegen.",),
        denies=(
            ("Wir nutzen {a}.", "Wir nutzen {a} nicht mehr."),
            ("Wir nutzen {a}.", "Wir nutzen kein {a}."),
            ("Die API läuft auf {a}.", "Die API läuft nicht auf {a}."),
            ("Die API läuft auf {a}.", "Es stimmt nicht, dass die API auf {a} läuft."),
        ),
    ),
    "es": Language(
        said=(
            Said("Nuestro almacén es {a}.", "Nuestro almacén ahora es {b}."),
            Said("El servicio de pagos corre en {a}.", "El servicio de pagos ahora corre en {b}."),
            Said("Usamos {a} para todo.", "Ahora usamos {b} para todo."),
            Said("Desplegamos con {a}.", "Ahora desplegamos con {b}."),
            Said("Los informes se guardan en {a}.", "Los informes ahora se guardan en {b}."),
            Said("Prefiero {a} para mi trabajo.", "Ahora prefiero {b} para mi trabajo.", mine=True),
        ),
        own=("{n}", "Actualización: {s}", "Desde hoy {s}"),
        any=(
            "Hemos pasado de {a} a {b}.",
            "Cambiamos de {a} a {b}.",
            "Hemos reemplazado {a} por {b}.",
            "{a} fue reemplazado por {b}.",
            "{b} reemplaza a {a}.",
            "Usamos {b} en lugar de {a}.",
        ),
        mine=("He cambiado de {a} a {b}.",),
        denies=(
            ("Usamos {a} en el equipo.", "Ya no usamos {a} en el equipo."),
            ("La API corre en {a}.", "La API no corre en {a}."),
            ("La API corre en {a}.", "No es cierto que la API corre en {a}."),
        ),
    ),
    "fr": Language(
        said=(
            Said("Notre entrepôt est {a}.", "Notre entrepôt est maintenant {b}."),
            Said("Le service de paiement tourne sur {a}.", "Le service de paiement tourne maintenant sur {b}."),
            Said("Nous utilisons {a}.", "Nous utilisons maintenant {b}."),
            Said("Nous déployons avec {a}.", "Nous déployons désormais avec {b}."),
            Said("Les rapports sont stockés dans {a}.", "Les rapports sont désormais stockés dans {b}."),
            Said("Je préfère {a}.", "Je préfère maintenant {b}.", mine=True),
        ),
        own=("{n}", "Mise à jour : {s}", "À partir de demain, {s}"),
        any=(
            "Nous sommes passés de {a} à {b}.",
            "Nous avons remplacé {a} par {b}.",
            "{a} a été remplacé par {b}.",
            "{b} remplace {a}.",
            "Nous utilisons {b} au lieu de {a}.",
            "Nous avons migré de {a} vers {b}.",
        ),
        mine=("Je suis passé de {a} à {b}.",),
        denies=(
            ("Nous utilisons {a}.", "Nous n'utilisons plus {a}."),
            ("L'API tourne sur {a}.", "L'API ne tourne pas sur {a}."),
            ("L'API tourne sur {a}.", "Il n'est pas vrai que l'API tourne sur {a}."),
        ),
    ),
    "pt": Language(
        said=(
            Said("Nosso armazém é {a}.", "Nosso armazém agora é {b}."),
            Said("O serviço de pagamentos roda em {a}.", "O serviço de pagamentos agora roda em {b}."),
            Said("Nós usamos {a} na equipe.", "Agora nós usamos {b} na equipe."),
            Said("Fazemos deploy com {a} na equipe.", "Agora fazemos deploy com {b} na equipe."),
            Said("Os relatórios ficam em {a}.", "Os relatórios agora ficam em {b}."),
            Said("Eu prefiro {a}.", "Agora eu prefiro {b}.", mine=True),
        ),
        own=("{n}", "Atualização: {s}", "A partir de hoje, {s}"),
        any=(
            "Mudamos de {a} para {b}.",
            "Nós migramos de {a} para {b}.",
            "Substituímos {a} por {b}.",
            "{a} foi substituído por {b}.",
            "{b} substituiu {a} no projeto.",
            "Nós usamos {b} em vez de {a}.",
        ),
        mine=("Eu mudei de {a} para {b}.",),
        denies=(
            ("Nós usamos {a} na equipe.", "Não usamos mais {a} na equipe."),
            ("A API roda em {a}.", "A API não roda em {a}."),
            ("A API roda em {a}.", "Não é verdade que a API roda em {a}."),
        ),
    ),
    "ja": Language(
        said=(
            Said("うちのデータウェアハウスは{a}です。", "うちのデータウェアハウスは今は{b}です。"),
            Said("CIは{a}で動いています。", "CIは現在{b}で動いています。"),
            Said("チームは{a}を使っています。", "チームは今は{b}を使っています。"),
            Said("デプロイは{a}で行っています。", "デプロイは現在{b}で行っています。"),
        ),
        own=("{n}", "更新：{s}", "今後は{s}"),
        any=(
            "{a}から{b}に移行しました。",
            "{a}を{b}に置き換えました。",
            "{a}の代わりに{b}を使っています。",
            "{a}をやめて{b}にしました。",
            "{b}が{a}に取って代わりました。",
            "先週{a}から{b}へ切り替えました。",
        ),
        mine=(),
        denies=(
            ("CIは{a}で動いています。", "CIは{a}で動いていません。"),
            ("チームは{a}を使っています。", "チームはもう{a}を使っていません。"),
        ),
    ),
    "zh": Language(
        said=(
            Said("我们的数据仓库是{a}。", "我们的数据仓库现在是{b}。"),
            Said("计费服务运行在{a}上。", "计费服务现在运行在{b}上。"),
            Said("我们使用{a}。", "我们现在使用{b}。"),
            Said("报表存放在{a}里。", "报表现在存放在{b}里。"),
        ),
        own=("{n}", "更新：{s}", "从今天起，{s}"),
        any=(
            "我们从{a}迁移到了{b}。",
            "我们把{a}换成了{b}。",
            "{a}已被{b}取代。",
            "{b}取代了{a}。",
            "我们用{b}代替{a}。",
            "我们从{a}切换到{b}。",
        ),
        mine=(),
        denies=(
            ("我们使用{a}。", "我们不再使用{a}。"),
            ("计费服务运行在{a}上。", "计费服务不运行在{a}上。"),
        ),
    ),
}
