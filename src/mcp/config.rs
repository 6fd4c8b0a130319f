//! The configuration that people share: `mcpServers`, a JSON object with an entry for each server.

use std::{collections::BTreeMap, env, fs, path::Path, time::Duration};

use serde_json::{Map, Value};

use crate::{
    error::{Error, ErrorKind, Result},
    mcp::transport::StdioOptions,
};

mod variables;

/// The servers of a configuration, in its order.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Each with its name.
    pub servers: Vec<(String, Entry)>,
}

/// A server of a configuration.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it is for.
    pub description: Option<String>,
    /// Whether it is used. Default: yes.
    pub enabled: bool,
    /// How long a request may take without a sign of life. Default: what the client's options say.
    pub timeout: Option<Duration>,
    /// How it is reached, or why it cannot be.
    pub server: Result<Server, String>,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Server {
    /// A program.
    Stdio(StdioOptions),
    /// An address.
    Http {
        /// The address of its MCP endpoint.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
        /// What is set for signing in; the rest is found out.
        oauth: OAuthEntry,
    },
}

/// What a configuration says about signing in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthEntry {
    /// The id of a client that was registered beforehand.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<crate::secret::Secret>,
    /// The scope to ask for.
    pub scope: Option<String>,
    /// The name to register with.
    pub client_name: Option<String>,
    /// The port of the callback.
    pub callback_port: Option<u16>,
    /// Where the metadata of the authorization server is, if it cannot be found.
    pub metadata_url: Option<String>,
}

impl Config {
    /// Reads a configuration: `{"mcpServers": {…}}`, or only what is inside.
    ///
    /// A faulty entry is kept with its fault, so that it can be shown and spoils no other. Fields that are not known are
    /// ignored.
    ///
    /// In every text of an entry but its description, `${NAME}` stands for a variable of the environment and
    /// `${NAME:-default}` for one that may be unset or empty; a variable that is missing is a fault of the entry. `$${`
    /// stands for `${` itself, and what is no variable, such as `${a#b}` of a shell, stays as it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde_json::json;
    /// use steerage::mcp::Config;
    ///
    /// let config = Config::from_value(&json!({"mcpServers": {
    ///     "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]},
    ///     "shop": {"type": "http", "url": "https://shop.example/mcp"},
    ///     "old": {"type": "sse", "url": "https://old.example/sse"},
    /// }}))?;
    /// let faults: Vec<_> = config.servers.iter().filter_map(|(name, entry)| Some((name, entry.server.as_ref().err()?))).collect();
    /// assert_eq!(faults.len(), 1);
    /// # Ok::<(), steerage::Error>(())
    /// ```
    pub fn from_value(value: &Value) -> Result<Config> {
        Config::from_value_with(value, &|name| env::var(name).ok())
    }

    /// The same with variables of the host's own in place of those of the environment.
    pub fn from_value_with(
        value: &Value,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config> {
        let inside = value.get("mcpServers").unwrap_or(value);
        let Value::Object(entries) = inside else {
            let text = "a configuration of MCP servers is an object with an entry for each server";
            return Err(Error::new(ErrorKind::Configuration, text));
        };
        let read =
            |(name, entry): (&String, &Value)| (name.clone(), Entry::read(name, entry, variables));
        Ok(Config { servers: entries.iter().map(read).collect() })
    }

    /// Reads a configuration from a file. Relative folders of servers are those of the program, not of the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Config> {
        let path = path.as_ref();
        let fault = |what: String| {
            let text = format!("the configuration {} cannot be used: {what}", path.display());
            Error::new(ErrorKind::Configuration, text)
        };
        let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
        Config::from_value(&value).map_err(|error| fault(error.to_string()))
    }
}

impl Entry {
    fn read(name: &str, entry: &Value, variables: variables::Lookup<'_>) -> Entry {
        let empty = Map::new();
        let fields = Fields(entry.as_object().unwrap_or(&empty));
        let server = match entry {
            Value::Object(all) => {
                let used = all.iter().filter(|(name, _)| *name != "description");
                let used: Map<_, _> = used.map(|(name, it)| (name.clone(), it.clone())).collect();
                // A server that is not used need not have its variables.
                let filled = match all.get("enabled") {
                    Some(Value::Bool(false)) => Ok(Value::Object(used)),
                    _ => variables::filled_in(&Value::Object(used), variables),
                };
                filled.and_then(|it| Fields(it.as_object().unwrap_or(&empty)).server(name))
            }
            _ => Err("it is no object".to_owned()),
        };
        let common = fields.common();
        let (description, enabled, timeout) = common.clone().unwrap_or((None, true, None));
        Entry { description, enabled, timeout, server: common.and(server) }
    }
}

/// The fields of an entry. The faults never show a value, which may be a key.
struct Fields<'a>(&'a Map<String, Value>);

type Common = (Option<String>, bool, Option<Duration>);

impl Fields<'_> {
    fn common(&self) -> Result<Common, String> {
        let enabled = match self.0.get("enabled") {
            None => true,
            Some(Value::Bool(enabled)) => *enabled,
            Some(_) => return Err("`enabled` is neither true nor false".to_owned()),
        };
        let timeout = match self.0.get("timeout") {
            None => None,
            Some(value) => {
                let seconds = value.as_f64().filter(|seconds| *seconds > 0.0);
                let timeout = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
                Some(timeout.ok_or("`timeout` is no number of seconds above zero")?)
            }
        };
        Ok((self.text("description")?, enabled, timeout))
    }

    fn server(&self, name: &str) -> Result<Server, String> {
        let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err("its name may have letters, digits, `_` and `-` only".to_owned());
        }
        match (self.text("type")?.as_deref(), self.text("url")?, self.text("command")?) {
            (Some("sse"), ..) => Err(
                "the old transport `sse` is not spoken: use the server's streamable HTTP address"
                    .to_owned(),
            ),
            (None | Some("http" | "streamable-http" | "streamableHttp"), Some(url), _) => {
                self.http(url)
            }
            (None | Some("stdio"), _, Some(command)) => self.stdio(command),
            (Some(kind), ..) if !matches!(kind, "http" | "stdio") => {
                Err(format!("its type `{kind}` is neither `stdio` nor `http`"))
            }
            _ => Err("it needs a `command` (a program) or a `url` (streamable HTTP)".to_owned()),
        }
    }

    fn stdio(&self, command: String) -> Result<Server, String> {
        let args = match self.0.get("args") {
            None => Vec::new(),
            Some(value) => serde_json::from_value::<Vec<String>>(value.clone())
                .map_err(|_| "`args` is no list of texts")?,
        };
        let mut options = StdioOptions::new(command, args);
        options.env = self.texts("env")?.into_iter().collect::<BTreeMap<_, _>>();
        options.cwd = self.text("cwd")?.map(Into::into);
        options.inherit_env = self.0.get("inheritEnv").and_then(Value::as_bool).unwrap_or_default();
        Ok(Server::Stdio(options))
    }

    fn http(&self, url: String) -> Result<Server, String> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err("its `url` begins neither with http:// nor with https://".to_owned());
        }
        let oauth = match self.0.get("oauth") {
            None => OAuthEntry::default(),
            Some(Value::Object(fields)) => {
                Fields(fields).oauth().map_err(|fault| format!("in `oauth` {fault}"))?
            }
            Some(_) => return Err("`oauth` is no object".to_owned()),
        };
        Ok(Server::Http { url, headers: self.texts("headers")?, oauth })
    }

    fn oauth(&self) -> Result<OAuthEntry, String> {
        let callback_port = match self.0.get("callbackPort") {
            None => None,
            Some(port) => {
                let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
                Some(port.filter(|port| *port > 0).ok_or("`callbackPort` is no port")?)
            }
        };
        let metadata_url = self.text("authServerMetadataUrl")?;
        if metadata_url
            .as_ref()
            .is_some_and(|url| !url.starts_with("https://") && !is_loopback(url))
        {
            return Err("`authServerMetadataUrl` does not begin with https://".to_owned());
        }
        Ok(OAuthEntry {
            client_id: self.text("clientId")?,
            client_secret: self.text("clientSecret")?.map(Into::into),
            scope: self.text("scope")?,
            client_name: self.text("clientName")?,
            callback_port,
            metadata_url,
        })
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{name}` is no text")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<(String, String)>, String> {
        let entries = match self.0.get(name) {
            None => return Ok(Vec::new()),
            Some(Value::Object(entries)) => entries,
            Some(_) => return Err(format!("`{name}` is no object of texts")),
        };
        let text = |(key, value): (&String, &Value)| match value {
            Value::String(value) => Ok((key.clone(), value.clone())),
            _ => Err(format!("`{key}` in `{name}` is no text")),
        };
        entries.iter().map(text).collect()
    }
}

/// Whether a URL leads to the machine itself, where plain HTTP is as good as any.
pub(crate) fn is_loopback(url: &str) -> bool {
    matches!(host(url).as_str(), "localhost" | "127.0.0.1" | "::1")
}

/// The host of a URL in lower case, without port and brackets; empty where a name or password stands before it, which
/// would make it look like another one.
pub(crate) fn host(url: &str) -> String {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.contains('@') {
        return String::new();
    }
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after)) if after.is_empty() || after.starts_with(':') => host,
        Some(_) => "",
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.to_ascii_lowercase()
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Server::Stdio(options) => f.debug_tuple("Stdio").field(options).finish(),
            Server::Http { url, headers, oauth } => {
                // Values may be keys whatever their names, and so may parts of the path.
                let names: Vec<_> = headers.iter().map(|(name, _)| name).collect();
                f.debug_struct("Http")
                    .field("host", &host(url))
                    .field("headers", &names)
                    .field("oauth", oauth)
                    .finish()
            }
        }
    }
}
