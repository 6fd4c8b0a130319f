//! The bytes of a scripted server: requests read, responses written as told.

use std::{
    fmt::Write as _,
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use crossbeam_channel::select;

use crate::{
    abort::AbortSignal,
    testing::server::{Behavior, Chunk, End, Framing, Gate, Request, Response},
};

/// What a connection is read from and written to.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// Makes the stream of a fresh connection.
pub type Wrap = Box<dyn Fn(TcpStream) -> io::Result<Box<dyn Stream>> + Send + Sync>;

/// One connection.
pub(crate) struct Wire {
    socket: TcpStream,
    /// In place of the socket.
    wrapped: Option<Box<dyn Stream>>,
    /// The last byte of the request was looked at, not read: closing a socket with unread bytes resets the connection,
    /// which cannot be asked for otherwise.
    holds_byte: bool,
}

/// Heads above this are refused.
const LONGEST_HEAD: usize = 256 << 10;

impl Wire {
    pub(crate) fn plain(socket: TcpStream) -> Wire {
        Wire { socket, wrapped: None, holds_byte: false }
    }

    pub(crate) fn wrapped(socket: TcpStream, wrap: &Wrap) -> io::Result<Wire> {
        let wrapped = Some(wrap(socket.try_clone()?)?);
        Ok(Wire { socket, wrapped, holds_byte: false })
    }

    /// Reads a request; none if the other side closed the connection before one.
    pub(crate) fn read_request(&mut self, connection: usize) -> io::Result<Option<Request>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() > LONGEST_HEAD {
                return Err(io::Error::other("the head of the request is too long"));
            }
            let last = head.ends_with(b"\r\n\r");
            match self.read_byte(last) {
                Ok(byte) => head.push(byte),
                Err(_) if head.is_empty() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut request = parse_head(&String::from_utf8_lossy(&head));
        request.connection = connection;
        let chunked = request
            .header("transfer-encoding")
            .is_some_and(|it| it.eq_ignore_ascii_case("chunked"));
        let length = request.header("content-length").and_then(|it| it.trim().parse().ok());
        request.body = match length {
            _ if chunked => self.read_chunks()?,
            None | Some(0) => Vec::new(),
            Some(length) => self.read_body(length)?,
        };
        Ok(Some(request))
    }

    /// Writes a response; tells whether the connection can go on.
    pub(crate) fn write_response(
        &mut self,
        response: &Response,
        closing: &AbortSignal,
    ) -> io::Result<bool> {
        if response.end != End::Reset {
            self.let_go()?;
        }
        pass(response.delay, response.gate.as_ref(), closing)?;
        match response.behavior {
            Behavior::Answer => {}
            Behavior::CloseBeforeHeaders => return Ok(false),
            Behavior::HangBeforeHeaders => return self.hang(),
        }
        let pieces = response.pieces();
        let head = head(response, &pieces);
        self.write(head.as_bytes())?;
        let no_body = matches!(response.status, 100..200 | 204 | 304);
        for piece in pieces {
            pass(piece.delay, piece.gate.as_ref(), closing)?;
            if no_body || piece.bytes.is_empty() {
                continue;
            }
            if response.framing == Framing::Chunked {
                let mut framed = format!("{:x}\r\n", piece.bytes.len()).into_bytes();
                framed.extend_from_slice(&piece.bytes);
                framed.extend_from_slice(b"\r\n");
                self.write(&framed)?;
            } else {
                self.write(&piece.bytes)?;
            }
        }
        match response.end {
            End::Normal if response.framing == Framing::Close => Ok(false),
            End::Normal if response.framing == Framing::Chunked && !no_body => {
                self.write(b"0\r\n\r\n")?;
                Ok(true)
            }
            End::Normal => Ok(true),
            End::Destroy => {
                let _ = self.socket.shutdown(Shutdown::Both);
                Ok(false)
            }
            End::Reset => Ok(false),
            End::Hang => self.hang(),
        }
    }

    fn hang(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1024];
        while self.stream().read(&mut buffer)? > 0 {}
        Ok(false)
    }

    fn stream(&mut self) -> &mut dyn Stream {
        match &mut self.wrapped {
            Some(wrapped) => &mut **wrapped,
            None => &mut self.socket,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream().write_all(bytes)?;
        self.stream().flush()
    }

    fn read_byte(&mut self, last: bool) -> io::Result<u8> {
        self.let_go()?;
        let mut byte = [0];
        if last && self.wrapped.is_none() {
            if self.socket.peek(&mut byte)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.holds_byte = true;
        } else {
            self.stream().read_exact(&mut byte)?;
        }
        Ok(byte[0])
    }

    fn let_go(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.holds_byte) {
            self.socket.read_exact(&mut [0])?;
        }
        Ok(())
    }

    fn read_body(&mut self, length: usize) -> io::Result<Vec<u8>> {
        self.let_go()?;
        let mut body = vec![0; length - 1];
        self.stream().read_exact(&mut body)?;
        body.push(self.read_byte(true)?);
        Ok(body)
    }

    fn read_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?;
            let length = line.split(';').next().unwrap_or_default().trim();
            let length = usize::from_str_radix(length, 16).map_err(io::Error::other)?;
            if length == 0 {
                while !self.read_line()?.is_empty() {}
                return Ok(body);
            }
            let start = body.len();
            body.resize(start + length, 0);
            self.stream().read_exact(&mut body[start..])?;
            self.read_line()?;
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.read_byte(false)?);
        }
        line.truncate(line.len() - 2);
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

fn head(response: &Response, pieces: &[Chunk]) -> String {
    let status = response.status;
    let mut head = format!("HTTP/1.1 {status} {}\r\n", response.reason);
    for (name, value) in &response.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    match response.framing {
        Framing::Chunked if matches!(status, 204 | 304) => {}
        Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
        Framing::Length => {
            let length: usize = pieces.iter().map(|it| it.bytes.len()).sum();
            let _ = write!(head, "content-length: {}\r\n", length + response.extra_length);
        }
        Framing::Close => head.push_str("connection: close\r\n"),
    }
    head.push_str("\r\n");
    head
}

/// Waits for the time and the gate, or fails when the server is dropped.
fn pass(delay: Duration, gate: Option<&Gate>, closing: &AbortSignal) -> io::Result<()> {
    if !delay.is_zero() {
        closing.wait_timeout(delay);
    }
    if let Some(gate) = gate {
        let opened = gate.opened.signal();
        select! {
            recv(opened.channel()) -> _ => {}
            recv(closing.channel()) -> _ => {}
        }
    }
    if closing.is_aborted() { Err(io::Error::other("the server is closing")) } else { Ok(()) }
}

fn parse_head(head: &str) -> Request {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    Request { method, path, headers, ..Request::default() }
}
