"""How cost grows with jobs that wait, workers, queues and payloads; and a model for machines that are not here."""
