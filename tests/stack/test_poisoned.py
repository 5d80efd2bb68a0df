"""Every attack of the poisoning suite once more, over Kafka, the workers, Redis and HTTP."""

from pathlib import Path

import orjson

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.kafka.publisher import publish
from tests.pure.test_poisoning import ATTACKS, attacked, guarded
from tests.support.pipeline import new_settings, running
from tests.support.service import serving

ASKED = {"query": "staging database reports approval customer data", "token_budget": 8_000, "fill": "budget"}


def test_no_attack_reaches_a_rule_or_a_fact_of_others(kafka: str, redis_url: str, tmp_path: Path) -> None:
    """Each in a tenant of its own."""
    assert len(ATTACKS) >= 40
    settings = new_settings(kafka, redis_url)
    lines = [orjson.dumps({**one, "tenant_id": f"t{n}"}) for n, each in enumerate(ATTACKS) for one in attacked(each)]
    with running(settings, tmp_path, "worker", "materialiser", partitions=2):
        assert publish(lines, settings).complete
        wait_for_all(settings)
        with serving(settings) as client:
            for n, attack in enumerate(ATTACKS):
                said = {}
                for subject in ("u1", "u3", None):
                    asked = {name: value for name, value in {**ASKED, "subject_id": subject}.items() if value}
                    answer = client.post("/v1/hmx/context-packs", json=asked, headers={"X-HMX-Tenant": f"t{n}"})
                    assert answer.status_code == 200, answer.text
                    said[subject] = " ".join(guarded(ContextPack.model_validate_json(answer.content)))
                    assert attack.mark not in said[subject].casefold(), (attack.name, subject)
                assert "Postgres" in said["u1"], attack.name
                assert "sk for approval before deleting customer data" in said["u1"], attack.name
