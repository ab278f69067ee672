"""How cost grows: with the jobs that wait, with workers, queues and payloads; and a model for machines that are not here."""
