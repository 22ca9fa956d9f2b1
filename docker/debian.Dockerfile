# Base images of Debian's packages, in place of those of docker/Dockerfile and docker-compose.yml that
# their publishers make. docker/images builds them.
FROM queryable-topics-debian AS debian
RUN apt-get update

# python:3.11-slim-bookworm. pip of a virtual environment has certificates of its own.
FROM debian AS python
RUN apt-get install --yes --no-install-recommends python3 python3-dev python3-venv python-is-python3
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt

# openresty/openresty. Debian's files name the modules relative to nginx's folder, which has none.
FROM debian AS proxy
RUN apt-get install --yes --no-install-recommends nginx libnginx-mod-http-lua lua-resty-core lua-cjson \
    && sed -i --follow-symlinks 's# modules/# /usr/lib/nginx/modules/#' /etc/nginx/modules-enabled/*.conf \
    && ln -s nginx /usr/sbin/openresty

# prom/prometheus, with its folder of data; wget is for the health check
FROM debian AS prometheus
RUN apt-get install --yes --no-install-recommends prometheus wget \
    && install -d -o 65534 -g 65534 /prometheus
ENTRYPOINT ["prometheus"]
