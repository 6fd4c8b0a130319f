//! One message and what comes back.

use super::{EVENTS, JSON, Refusal, Shared, failure, resume::Reading};
use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    http::{HttpRequest, HttpResponse, Method},
    jsonrpc::{Id, Message},
    secret::Secret,
};

/// How often a request is sent again with a better token.
const MOST_REFUSALS: usize = 2;

impl Shared {
    /// Sends a message that is no request and waits until the server has taken it.
    pub(super) fn tell(&self, message: &Message, signal: &AbortSignal) -> Result<()> {
        let (signal, _hook) = self.until_closed(signal);
        self.post(message, &signal)?.finish();
        Ok(())
    }

    /// Sends a request and delivers what comes back, on a thread of its own.
    pub(super) fn ask(&self, message: &Message, id: u64, signal: &AbortSignal) {
        let (signal, _hook) = self.until_closed(signal);
        let result = crate::thread::catch(|| {
            let response = self.post(message, &signal)?;
            self.receive(response, id, &signal)
        });
        let result = result.unwrap_or_else(|panic| {
            let text = format!("the request to an MCP server failed inside: {panic}");
            Err(Error::new(ErrorKind::Callback, text))
        });
        if let (Err(error), Some(inbox)) = (result, self.inbox()) {
            inbox.failed(id, error);
        }
    }

    /// Sends a message; the answer is a success.
    fn post(&self, message: &Message, signal: &AbortSignal) -> Result<HttpResponse> {
        let body = message.to_line();
        let begins = matches!(message, Message::Request { method, .. } if method == "initialize");
        let response = self.authorized(signal, |token| {
            let mut request = self.request(Method::Post, token, !begins);
            request.body = body.as_str().into();
            request.header("content-type", JSON).header("accept", format!("{JSON}, {EVENTS}"))
        })?;
        let id = response.header("mcp-session-id").map(str::to_owned);
        if begins || id.is_some() {
            self.session.lock().id = id;
        }
        Ok(response)
    }

    /// Sends a request, and again if it was refused and there is a better token now.
    pub(super) fn authorized(
        &self,
        signal: &AbortSignal,
        request: impl Fn(Option<&Secret>) -> HttpRequest,
    ) -> Result<HttpResponse> {
        let mut refusals = 0;
        loop {
            let token = self.token(signal)?;
            let request = request(token.as_ref());
            let response = self.options.client.send(&request, signal)?;
            if response.is_success() {
                return Ok(response);
            }
            let challenge = response.header("www-authenticate").map(str::to_owned);
            let is_refused = match response.status() {
                401 => true,
                403 => challenge.as_deref().is_some_and(|it| it.contains("insufficient_scope")),
                _ => false,
            };
            if is_refused
                && refusals < MOST_REFUSALS
                && let Some(authorization) = &self.options.authorization
            {
                refusals += 1;
                let refusal = Refusal {
                    status: response.status(),
                    challenge: challenge.as_deref(),
                    token: token.as_ref(),
                };
                if authorization.refused(&refusal, signal)? {
                    continue;
                }
            }
            let in_session =
                request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
            return Err(failure::of(response, in_session)?);
        }
    }

    /// Delivers the answer to the request `id`.
    fn receive(&self, mut response: HttpResponse, id: u64, signal: &AbortSignal) -> Result<()> {
        let host = response.host().to_owned();
        let protocol = |text: String| Err(Error::new(ErrorKind::Protocol, text));
        if matches!(response.status(), 202 | 204) {
            return protocol(format!("the MCP server at {host} took a request without an answer"));
        }
        let kind = response.header("content-type").unwrap_or_default().to_ascii_lowercase();
        match kind.split(';').next().unwrap_or_default().trim() {
            JSON => {
                let body = response.read_to_limit(self.options.max_message_bytes as u64)?;
                if self.deliver(&body, Some(id)) {
                    return Ok(());
                }
                protocol(format!("the MCP server at {host} sent something else than the answer"))
            }
            EVENTS => self.read_to_answer(Reading::new(response), id, signal),
            other => {
                let shown = if other.is_empty() { "no content type" } else { other };
                protocol(format!("the MCP server at {host} answered with {shown}, not with JSON"))
            }
        }
    }

    /// Delivers messages; tells whether the answer to `id` was among them.
    pub(super) fn deliver(&self, bytes: &[u8], id: Option<u64>) -> bool {
        let Some(inbox) = self.inbox() else { return false };
        let mut is_answered = false;
        for message in Message::from_bytes(bytes) {
            match message {
                Ok(message) => {
                    if let Message::Response { id: Some(answered), .. } = &message {
                        is_answered |= id.is_some() && Id::as_u64(answered) == id;
                    }
                    inbox.message(message);
                }
                Err(problem) => inbox.fault(format!("an MCP server sent no message: {problem}")),
            }
        }
        is_answered
    }
}
