{{- define "queryable.labels" -}}
app.kubernetes.io/name: {{ .name }}
{{ include "queryable.common" .root }}
{{- end }}

{{- define "queryable.common" -}}
app.kubernetes.io/part-of: queryable-topics
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "queryable.clusterSecret" -}}
{{ .Values.clusterSecret.existingSecret | default "queryable-cluster" }}
{{- end }}

{{- define "queryable.allowedHosts" -}}
{{- $service := list "queryable-proxy" (printf "queryable-proxy.%s" .Release.Namespace) (printf "queryable-proxy.%s.svc" .Release.Namespace) }}
{{- $ingress := ternary .Values.ingress.hosts (list) .Values.ingress.enabled }}
{{- concat $service $ingress .Values.allowedHosts | join "," }}
{{- end }}

{{/* The entries of ConfigMaps. Their hashes are in the pods, so a change replaces these one by one. */}}
{{- define "queryable.settings" -}}
{{- merge (dict "QUERYABLE_ALLOWED_HOSTS" (include "queryable.allowedHosts" .)) .Values.settings | toYaml }}
{{- end }}

{{- define "queryable.limits" -}}
{{- dict "limits.conf" (.Values.proxy.limits | default (.Files.Get "files/limits.conf")) | toYaml }}
{{- end }}

{{- define "queryable.confD" -}}
{{- $tls := dict }}
{{- if .Values.tls.internalSecret }}
{{- $tls = dict "backend-tls.conf" (.Files.Get "files/backend-tls.conf") }}
{{- end }}
{{- merge $tls .Values.proxy.confD | toYaml }}
{{- end }}

{{/* What pods of backends, nginx and Spark have in common. */}}
{{- define "queryable.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "queryable.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "queryable.secretMounts" -}}
{{- range $name, $secret := .Values.secretFiles }}
- {name: secret-{{ $name }}, mountPath: /run/secrets/{{ $name }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "queryable.secretVolumes" -}}
{{- range $name, $secret := .Values.secretFiles }}
- name: secret-{{ $name }}
  secret: {secretName: {{ $secret }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{/* The token with which Prometheus reads the metrics. */}}
{{- define "queryable.metricsToken" -}}
{{- with .Values.podMonitor.tokenSecret.name }}
authorization:
  credentials: {name: {{ . }}, key: {{ $.Values.podMonitor.tokenSecret.key }}}
{{- end }}
{{- end }}
