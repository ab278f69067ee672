"""How cost grows with waiting jobs, workers, queues and payloads; and a model for other machines."""
