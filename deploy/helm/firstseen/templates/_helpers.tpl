{{/* The name of all objects: that of the release, with the chart's where it is not in it. */}}
{{- define "firstseen.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the workers of this release. The name is the job of the rules of Prometheus. */}}
{{- define "firstseen.selector" -}}
app.kubernetes.io/name: firstseen
app.kubernetes.io/component: worker
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "firstseen.labels" -}}
{{ include "firstseen.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "firstseen.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* A value of a setting as text; YAML's whole numbers come as floats. */}}
{{- define "firstseen.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* The settings as environment variables. */}}
{{- define "firstseen.environment" -}}
{{- $own := dict "application_id" .Values.applicationId "brokers" .Values.brokers "state_dir" "/var/lib/firstseen" "web.host" "0.0.0.0" "web.port" "6066" -}}
{{- if .Values.standbys -}}{{- $_ := set $own "standbys" .Values.standbys -}}{{- end -}}
{{- with .Values.secret -}}
{{- if and .name .kafkaConfig -}}{{- $_ := set $own "kafka_config" (printf "/etc/firstseen/secrets/%s" .kafkaConfig) -}}{{- end -}}
{{- if and .name .webToken -}}{{- $_ := set $own "web.token_file" (printf "/etc/firstseen/secrets/%s" .webToken) -}}{{- end -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- if or (hasKey $own $name) (eq $name "web.url") -}}{{- fail (printf "settings.%s: this chart sets it, by a value of its own or as a constant" $name) -}}{{- end -}}
{{- $_ := set $own $name $value -}}
{{- end -}}
{{- range $name, $value := $own }}
FIRSTSEEN_{{ $name | replace "." "__" | upper }}: {{ include "firstseen.text" $value | quote }}
{{- end -}}
{{- end -}}

{{- define "firstseen.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}

{{- define "firstseen.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.secret.name }}
- name: secrets
  mountPath: /etc/firstseen/secrets
  readOnly: true
{{- end }}
{{- end -}}
