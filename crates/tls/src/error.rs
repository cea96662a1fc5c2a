//! Why a file is no certificate bundle.

/// Why a file is no bundle. The texts are what the control API says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// Nothing like PEM.
    #[error(
        "this is not PEM: no line begins with `-----BEGIN `; hint: with curl, upload with `--data-binary @FILE`, since `-d` damages it"
    )]
    NotPem,
    /// Certificates in their binary form.
    #[error(
        "this is DER, not PEM; hint: `openssl x509 -inform der -in FILE` makes PEM of a certificate"
    )]
    Der,
    /// A damaged block.
    #[error(
        "the PEM is damaged: {0}; hint: with curl, upload with `--data-binary @FILE`, since `-d` damages it"
    )]
    Broken(String),
    /// No certificate.
    #[error("the file contains no certificate, only a key")]
    NoCertificate,
    /// Neither.
    #[error("there is neither a certificate nor a private key in it")]
    Nothing,
    /// A certificate that cannot be read.
    #[error("certificate {0} of the file cannot be read: it is no X.509 certificate")]
    Certificate(usize),
    /// A request for a certificate.
    #[error(
        "there is a certificate request in it; it is the authority's answer to the request that is needed"
    )]
    Request,
    /// OpenSSL's own format.
    #[error(
        "there is a TRUSTED CERTIFICATE in it; hint: `openssl x509 -in FILE` without `-trustout` makes a plain one"
    )]
    Trusted,
    /// No key for a certificate that is no authority's.
    #[error(
        "there is no private key in it; hint: put the key into the same file, `cat cert.pem chain.pem key.pem`"
    )]
    NoKey,
    /// A key under a password.
    #[error(
        "the private key is encrypted, and there is nobody to ask for the password; hint: `openssl pkey -in key.pem` removes it"
    )]
    EncryptedKey,
    /// More than one key.
    #[error("there are several private keys in it; a bundle has one")]
    SeveralKeys,
    /// A key that cannot be used.
    #[error(
        "the private key cannot be used: {0}; RSA of 2048 to 8192 bits, EC (P-256, P-384, P-521) and Ed25519 can"
    )]
    Key(String),
    /// The key of another certificate.
    #[error(
        "the private key does not belong to any certificate in the file; the first one is for `{0}`"
    )]
    Mismatch(String),
    /// A certificate that is no part of the chain.
    #[error(
        "certificate {number}, `{subject}`, is no part of the chain, which goes on with `{wanted}`"
    )]
    Stranger {
        /// Which of the file, from 1.
        number: usize,
        /// Its subject.
        subject: String,
        /// The issuer of the last certificate that is part of it.
        wanted: String,
    },
}
