# The worker and its command line: our virtual environment on Python's slim image, which stands on
# Debian's stable release.
# Its root file system is never written to: run it with --read-only, a volume on /var/lib/firstseen
# and a tmpfs on /tmp, as docker-compose.yml and deploy/kubernetes do.
#
#   docker build --tag ghcr.io/firstseen/firstseen:0.1.0 .
#   docker run --rm --publish 127.0.0.1:6066:6066 --volume state:/var/lib/firstseen \
#     --env FIRSTSEEN_BROKERS=kafka:9092 --env FIRSTSEEN_WEB__TOKEN=… ghcr.io/firstseen/firstseen:0.1.0
#
# The tag is moved by its makers for security fixes of Python and Debian; to pin it to the byte,
# write the digest that you tested behind it (@sha256:…), in both places.

FROM python:3.11-slim-trixie AS builder

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore

WORKDIR /build

# Without a pip of its own: nothing is ever installed into it again.
RUN python -m venv --without-pip /opt/firstseen

COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY simhash_core simhash_core
COPY streams streams
COPY firstseen firstseen

# The versions that the tests run with, those of the build back end too; byte code is made here,
# since nothing can be written where it runs.
RUN PIP_CONSTRAINT=/build/constraints.txt PIP_BUILD_CONSTRAINT=/build/constraints.txt \
    python -m pip --python /opt/firstseen/bin/python install --quiet --compile '.[registry]' \
 && /opt/firstseen/bin/firstseen version

FROM python:3.11-slim-trixie

LABEL org.opencontainers.image.title="Firstseen" \
      org.opencontainers.image.description="A streaming near-duplicate filter for Kafka" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/firstseen/firstseen" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim-trixie"

# The base image leaves out the byte code of the standard library, and nothing can be written where
# it runs: each command, and so each health check, would compile it again.
RUN python -m compileall -q -x '/(ensurepip|idlelib|lib2to3|pydoc_data|site-packages|tkinter)/' \
    /usr/local/lib/python3.11

COPY --from=builder /opt/firstseen /opt/firstseen

# A volume takes over the owner of the directory that it covers. VOLUME is not declared: every
# container without state, such as one that only makes topics, would leave a volume without a name.
RUN install --directory --owner=10001 --group=10001 --mode=0750 /var/lib/firstseen

# A port that is published leads to all addresses of the container, not to its loopback. Without a
# token only health and metrics are served there, and no documents.
ENV PATH=/opt/firstseen/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    FIRSTSEEN_STATE_DIR=/var/lib/firstseen \
    FIRSTSEEN_WEB__HOST=0.0.0.0 \
    FIRSTSEEN_WEB__OPEN_MONITORING=true

# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/firstseen
EXPOSE 6066

# Whether it is well, not whether it is ready: it may wait for its broker, or catch up, for long. It
# reads the same settings as the worker, so it has the port and the token. Images in OCI format have
# no place for it: podman build and buildah need --format docker to keep it.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
  CMD ["firstseen", "health"]

ENTRYPOINT ["firstseen"]
CMD ["worker"]
