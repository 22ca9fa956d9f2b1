"""`make chart-test`: the Helm chart, rendered by Helm and applied to an API server.

`run` builds the programs with Go. There is no kubelet and no controller: objects are checked and
stored, and no container runs."""
