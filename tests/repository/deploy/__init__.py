"""Tests of the files for deployment: image, Compose, Kubernetes, audit, list of packages."""
