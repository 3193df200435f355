"""The container image, run by podman beside a real Kafka: ``python -m tests.image``."""
