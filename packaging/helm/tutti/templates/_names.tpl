{{- define "tutti.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tutti.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tutti.labels" -}}
{{ include "tutti.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* The service account of the pods; empty: none of their own, and no token. */ -}}
{{- define "tutti.serviceAccount" -}}
{{- if .Values.serviceAccount }}{{ .Values.serviceAccount }}{{ else if .Values.endpoints.namespaces }}{{ include "tutti.name" . }}{{ end }}
{{- end }}

{{- /* The fewest servers that there are meant to be. */ -}}
{{- define "tutti.fewest" -}}
{{- if .Values.autoscaling.enabled }}{{ .Values.autoscaling.minReplicas }}{{ else }}{{ .Values.replicas }}{{ end }}
{{- end }}

{{- /* The files of the configuration. */ -}}
{{- define "tutti.files" -}}
site.yaml: |
  {{- toYaml .Values.configuration | nindent 2 }}
{{- if .Values.metrics.enabled }}
metrics.yaml: |
  listeners:
    "*:{{ .Values.metrics.port }}": {pass: metrics}
{{- end }}
{{- end }}
