//! A request as data: method, address, headers in order, and a body made of shared pieces.

use std::{fmt, io, sync::Arc, time::Duration};

use base64::prelude::{BASE64_STANDARD, Engine as _};

use crate::secret::{Secret, secrets_of_url, sounds_secret, without_query};

/// One request.
#[derive(Clone, Default)]
pub struct HttpRequest {
    /// The method. Default: GET.
    pub method: Method,
    /// The absolute URL, `http` or `https`.
    pub url: String,
    /// The headers in order. `content-length` follows from the body.
    pub headers: Vec<(String, String)>,
    /// Names of further headers that hold a key. Those whose name says so (`auth`, `key`, `token`, `secret`, `cookie`,
    /// `password`) need not be listed. They go to the same origin only, and their values are taken out of error texts.
    pub secret_headers: Vec<String>,
    /// The body.
    pub body: Body,
    /// How long the head of the answer may take; the client's own limit where it is `None`.
    pub first_byte_timeout: Option<Duration>,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Asks for something.
    #[default]
    Get,
    /// Sends something.
    Post,
    /// Ends something.
    Delete,
}

/// The body of a request: pieces that are written one after the other and can be shared with other requests.
#[derive(Clone, Default)]
pub struct Body {
    pieces: Vec<Piece>,
}

/// Whatever holds the bytes is kept as it is: a request may be large.
type Piece = Arc<dyn AsRef<[u8]> + Send + Sync>;

impl HttpRequest {
    /// Makes a GET request.
    pub fn get(url: impl Into<String>) -> HttpRequest {
        HttpRequest { url: url.into(), ..HttpRequest::default() }
    }

    /// Makes a POST request.
    pub fn post(url: impl Into<String>, body: impl Into<Body>) -> HttpRequest {
        let (url, body) = (url.into(), body.into());
        HttpRequest { method: Method::Post, url, body, ..HttpRequest::default() }
    }

    /// Adds a header after those that are there.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> HttpRequest {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a header that holds a key.
    #[must_use]
    pub fn secret_header(mut self, name: impl Into<String>, value: &Secret) -> HttpRequest {
        let name = name.into();
        if !self.is_secret(&name) {
            self.secret_headers.push(name.clone());
        }
        self.header(name, value.expose())
    }

    /// Tells whether a header of this name holds a key.
    pub fn is_secret(&self, name: &str) -> bool {
        sounds_secret(name) || self.secret_headers.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Returns the keys that the URL and the headers hold: of a header the whole, what stands behind its first word
    /// (`Bearer`), and the password in it (`Basic`).
    pub fn secrets(&self) -> Vec<Secret> {
        let mut secrets = secrets_of_url(&self.url);
        for (_, value) in self.headers.iter().filter(|(name, _)| self.is_secret(name)) {
            if let Some((scheme, bare)) = value.split_once(' ') {
                secrets.push(Secret::new(bare.trim()));
                if scheme.eq_ignore_ascii_case("basic") {
                    secrets.extend(password(bare.trim()));
                }
            }
            secrets.push(Secret::new(value));
        }
        // The longest first, so that none is left standing without the part that it shares with another.
        secrets.sort_by_key(|it| std::cmp::Reverse(it.expose().len()));
        secrets
    }
}

/// Returns the password of a `Basic` header.
fn password(encoded: &str) -> Option<Secret> {
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    Some(Secret::new(decoded.split_once(':')?.1))
}

impl Method {
    /// Returns the name as it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

impl Body {
    /// Makes an empty body.
    pub fn new() -> Body {
        Body::default()
    }

    /// Adds a piece at the end, without copying it.
    pub fn push(&mut self, piece: impl AsRef<[u8]> + Send + Sync + 'static) {
        self.pieces.push(Arc::new(piece));
    }

    /// Returns how many bytes there are.
    pub fn len(&self) -> u64 {
        self.bytes().map(|piece| piece.len() as u64).sum()
    }

    /// Tells whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes().all(<[u8]>::is_empty)
    }

    fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| (**piece).as_ref())
    }

    pub(crate) fn reader(&self) -> BodyPieces {
        BodyPieces { pieces: self.pieces.clone(), piece: 0, offset: 0 }
    }
}

/// Reads the pieces of a body one after the other.
pub(crate) struct BodyPieces {
    pieces: Vec<Piece>,
    piece: usize,
    offset: usize,
}

impl io::Read for BodyPieces {
    /// Fills the whole buffer where it can: each read is a write to the socket.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(piece) = self.pieces.get(self.piece) {
            let piece = (**piece).as_ref();
            let amount = (piece.len() - self.offset).min(buffer.len() - filled);
            buffer[filled..filled + amount]
                .copy_from_slice(&piece[self.offset..self.offset + amount]);
            filled += amount;
            self.offset += amount;
            if self.offset < piece.len() {
                break;
            }
            self.piece += 1;
            self.offset = 0;
        }
        Ok(filled)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        let mut body = Body::new();
        body.push(bytes);
        body
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        text.into_bytes().into()
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Body {
        text.to_owned().into()
    }
}

impl From<Vec<Arc<[u8]>>> for Body {
    fn from(pieces: Vec<Arc<[u8]>>) -> Body {
        let mut body = Body::new();
        for piece in pieces {
            body.push(piece);
        }
        body
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): &(String, String)| {
            let value = if self.is_secret(name) { "(secret)" } else { value };
            format!("{name}: {value}")
        };
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &without_query(&self.url))
            .field("headers", &self.headers.iter().map(shown).collect::<Vec<_>>())
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("bytes", &self.len()).finish()
    }
}
