{{/* Every template that takes a dict takes {root, process}: the chart's root context and a process's name. */}}

{{- define "hmx.name" -}}
{{- printf "%s-%s" (.root.Release.Name | trunc (sub 51 (len .process) | int) | trimSuffix "-") .process -}}
{{- end -}}

{{- define "hmx.selector" -}}
app.kubernetes.io/name: hmx
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .process }}
{{- end -}}

{{- define "hmx.labels" -}}
{{ include "hmx.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "hmx.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The addresses at which the page asks workers and materialisers for what they know. */}}
{{- define "hmx.processes" -}}
{{- $root := . -}}
{{- $found := list -}}
{{- range $process, $port := dict "worker" 8081 "materialiser" 8082 -}}
{{- $name := include "hmx.name" (dict "root" $root "process" $process) -}}
{{- range $i := until (int (index $root.Values $process).replicas) -}}
{{- $found = append $found (printf "%s-%d=http://%s-%d.%s:%d" $process $i $name $i $name $port) -}}
{{- end -}}
{{- end -}}
{{- join "," $found -}}
{{- end -}}

{{- define "hmx.env" -}}
{{- $own := list "HMX_API_KEYS" "HMX_ARCHIVE" "HMX_CONTROL_KEY_FILE" "HMX_JWT_AUDIENCE" "HMX_JWT_ISSUER" "HMX_JWT_JWKS" "HMX_KAFKA_BOOTSTRAP" "HMX_KAFKA_CONFIG" "HMX_MATERIALISER_PORT" "HMX_PROCESSES" "HMX_REDIS_CA" "HMX_REDIS_SERVER" "HMX_REDIS_URL_FILE" "HMX_SERVICE_PORT" "HMX_STATE" "HMX_WORKER_ID" "HMX_WORKER_PORT" -}}
{{- $secret := index .root.Values.kafka.clientSecrets .process -}}
- {name: HMX_KAFKA_BOOTSTRAP, value: {{ .root.Values.kafka.bootstrap | quote }}}
{{- if $secret }}
- {name: HMX_KAFKA_CONFIG, value: /etc/hmx/kafka/client.properties}
{{- end }}
- {name: HMX_REDIS_URL_FILE, value: /etc/hmx/redis/url}
{{- if .root.Values.redis.caSecret }}
- {name: HMX_REDIS_CA, value: /etc/hmx/redis-ca/ca.crt}
{{- end }}
- {name: HMX_CONTROL_KEY_FILE, value: /etc/hmx/control/control-key}
- {name: HMX_HOST, value: {{ .root.Values.settings.HMX_HOST | default "0.0.0.0" | quote }}}
- {name: HMX_STATE, value: /tmp/hmx}
{{- with .root.Values.archive.url }}
- {name: HMX_ARCHIVE, value: {{ . | quote }}}
{{- end }}
{{- range $name, $value := omit .root.Values.settings "HMX_ALLOWED_HOSTS" "HMX_HOST" }}
{{- if has $name $own }}{{ fail (printf "settings.%s: the chart sets it itself; values.yaml says by which value, if by any" $name) }}{{ end }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- define "hmx.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: redis, mountPath: /etc/hmx/redis, readOnly: true}
- {name: control, mountPath: /etc/hmx/control, readOnly: true}
{{- if index .root.Values.kafka.clientSecrets .process }}
- {name: kafka, mountPath: /etc/hmx/kafka, readOnly: true}
{{- end }}
{{- if .root.Values.kafka.files }}
- {name: kafka-files, mountPath: /etc/hmx/kafka-files, readOnly: true}
{{- end }}
{{- if .root.Values.redis.caSecret }}
- {name: redis-ca, mountPath: /etc/hmx/redis-ca, readOnly: true}
{{- end }}
{{- if and (eq .process "service") .root.Values.apiKeysSecret }}
- {name: api-keys, mountPath: /etc/hmx/api-keys, readOnly: true}
{{- end }}
{{- end -}}

{{- define "hmx.volumes" -}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
- {name: redis, secret: {secretName: {{ .root.Values.redis.urlSecret }}}}
- {name: control, secret: {secretName: {{ .root.Values.controlKeySecret }}}}
{{- with index .root.Values.kafka.clientSecrets .process }}
- {name: kafka, secret: {secretName: {{ . }}}}
{{- end }}
{{- with .root.Values.kafka.files }}
- {name: kafka-files, secret: {secretName: {{ . }}}}
{{- end }}
{{- with .root.Values.redis.caSecret }}
- {name: redis-ca, secret: {secretName: {{ . }}}}
{{- end }}
{{- if and (eq .process "service") .root.Values.apiKeysSecret }}
- {name: api-keys, secret: {secretName: {{ .root.Values.apiKeysSecret }}}}
{{- end }}
{{- end -}}

{{/* What stands in the spec of every pod besides its container. */}}
{{- define "hmx.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .root.Values.affinity }}
affinity: {{- toYaml .root.Values.affinity | nindent 2 }}
{{- else }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "hmx.selector" (dict "root" .root "process" (.component | default .process)) | nindent 8 }}
{{- end }}
volumes: {{- include "hmx.volumes" . | nindent 2 }}
{{- end -}}

{{- define "hmx.container-security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* {root, process, port}: probes and port of a process. A pod is ready once it has started: one that lags still works,
     and taking it away would only make the lag worse. A service without Kafka still serves packs. Alerts watch both. */}}
{{- define "hmx.probes" -}}
ports:
  - {name: http, containerPort: {{ .port }}}
startupProbe:
  httpGet: {path: /startupz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 360
readinessProbe:
  httpGet: {path: /startupz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}
