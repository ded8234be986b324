# SPDX-License-Identifier: BSD-2-Clause
"""TLS 1.3 with a certificate made on the spot and known by its fingerprint alone."""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
from dataclasses import field

from mrc.errors import PeerError, SystemRefused
from mrc.records import record


@record(frozen=True, slots=True)
class Identity:
    """A server's certificate and how to speak with it. `fingerprint`: SHA-256 of its DER form, 32 bytes."""

    fingerprint: bytes
    context: ssl.SSLContext = field(repr=False)


class WrongCertificate(PeerError):
    """The machine that answered does not hold the certificate the ticket names."""


def make_identity() -> Identity:
    """A fresh key and its certificate, of which only memory ever holds the private half.

    Raises SystemRefused when the system offers no place to hand them to TLS through.
    """
    certificate, key = self_signed()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Connections are few and long: tickets to resume them would only be unread bytes when one is closed.
    context.num_tickets = 0
    _load(context, key + certificate)
    return Identity(hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.decode())).digest(), context)


def self_signed() -> tuple[bytes, bytes]:
    """A fresh ECDSA P-256 certificate signed by itself, and its private key, both as PEM."""
    # These take longer to import than the whole command line does, and only a receiver needs them.
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mrc exchange")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Nobody checks the dates: the fingerprint is what counts, and the two ends' clocks may differ.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def client_context() -> ssl.SSLContext:
    """TLS 1.3 without any authority: `check_certificate` knows the one that counts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def client_handshake(tls: ssl.SSLSocket, fingerprint: bytes) -> None:
    """Shake hands on `tls`, whose timeout bounds it, and check the certificate before anything else is sent.

    Raises WrongCertificate when it is not the one `fingerprint` names; OSError, of which TimeoutError and
    ssl.SSLError are kinds, when there is no handshake.
    """
    tls.do_handshake()
    check_certificate(tls, fingerprint)


def check_certificate(tls: ssl.SSLSocket | ssl.SSLObject, fingerprint: bytes) -> None:
    """Once hands are shaken. Raises WrongCertificate when the other end's is not the one `fingerprint` names."""
    certificate = tls.getpeercert(binary_form=True)
    if certificate is None or not hmac.compare_digest(hashlib.sha256(certificate).digest(), fingerprint):
        raise WrongCertificate("it is not the receiver that made the ticket, its certificate is another")


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Give `context` its key and certificate. It reads only files, so a file in memory is made for it."""
    try:
        descriptor = os.memfd_create("mrc-exchange", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    except OSError:
        _load_from_disk(context, pem)


def _load_from_disk(context: ssl.SSLContext, pem: bytes) -> None:
    """Give `context` its key and certificate where /proc is missing: by a file that only this user can read, removed
    before this returns."""
    import tempfile

    try:
        # mkstemp creates with mode 0600.
        descriptor, path = tempfile.mkstemp(prefix="mrc-exchange-")
        try:
            os.write(descriptor, pem)
            context.load_cert_chain(path)
        finally:
            os.close(descriptor)
            os.unlink(path)
    except OSError as error:
        raise SystemRefused(f"no place to hand a certificate to TLS: {error}; mount /proc or free some space") from None
