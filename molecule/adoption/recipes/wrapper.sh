#!/bin/bash
# A site's own dockerd in front of the distribution's, with options that only its start shows.
set -e
dpkg-divert --quiet --rename --divert /usr/sbin/dockerd.distrib --add /usr/sbin/dockerd
cat >/usr/sbin/dockerd <<'EOF'
#!/bin/sh
exec /usr/sbin/dockerd.distrib "$@" $SITE_OPTIONS
EOF
chmod 755 /usr/sbin/dockerd
mkdir -p /etc/systemd/system/docker.service.d
cat >/etc/systemd/system/docker.service.d/site.conf <<'EOF'
[Service]
EnvironmentFile=-/etc/default/dockerd-site
EOF
systemctl daemon-reload
