# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A certificate authority and its certificates, as files for tests of TLS."""

from __future__ import annotations

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    def __init__(self, folder, name="authority"):
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        # The certificate has no key usage, like a certificate of 'openssl req -x509' and in Docker's documentation.
        self._certificate = self._signed(name, self._key, None, ())
        self.file = self._write(f"{name}.pem", self._certificate.public_bytes(serialization.Encoding.PEM))

    def pair(self, name, *addresses):
        """Return the paths of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(name, key, self._certificate, addresses)
        plain = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return self._write(f"{name}-cert.pem", certificate.public_bytes(serialization.Encoding.PEM)), self._write(f"{name}-key.pem", plain)

    def _signed(self, name, key, issuer, addresses):
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        )
        if addresses:
            names = [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
            built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return built.sign(self._key, hashes.SHA256())

    def _write(self, name, content):
        path = self._folder / name
        path.write_bytes(content)
        return str(path)
