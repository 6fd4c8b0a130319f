//! What a server says when it wants a token: the `www-authenticate` header (RFC 6750, RFC 9728).

/// What a server says when it wants a token, or a better one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) resource_metadata: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// Reads a header; what is not understood is left out.
    pub(crate) fn parse(header: &str) -> Challenge {
        let mut challenge = Challenge::default();
        for (name, value) in parameters(header) {
            let value = Some(value).filter(|value| !value.is_empty());
            match name.as_str() {
                "resource_metadata" => challenge.resource_metadata = value,
                "scope" => challenge.scope = value,
                "error" => challenge.error = value,
                _ => (),
            }
        }
        challenge
    }
}

/// The parameters of a header, `name=value` or `name="value"`, separated by commas or white space.
fn parameters(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = header;
    while let Some(place) = rest.find('=') {
        let name = rest[..place].rsplit([',', ' ', '\t']).find(|it| !it.is_empty());
        let name = name.unwrap_or_default().to_ascii_lowercase();
        rest = &rest[place + 1..];
        let mut value = String::new();
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut characters = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((place, character)) = characters.next() {
                match character {
                    '"' => {
                        end = place + 1;
                        break;
                    }
                    '\\' => value.extend(characters.next().map(|(_, it)| it)),
                    other => value.push(other),
                }
            }
            rest = &quoted[end..];
        } else {
            let end = rest.find([',', ' ', '\t']).unwrap_or(rest.len());
            value.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        found.push((name, value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        header: &str,
        resource_metadata: Option<&str>,
        scope: Option<&str>,
        error: Option<&str>,
    ) {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let (resource_metadata, scope, error) = (own(resource_metadata), own(scope), own(error));
        assert_eq!(Challenge::parse(header), Challenge { resource_metadata, scope, error });
    }

    #[test]
    fn challenges_are_read_quoted_or_bare() {
        check("Bearer", None, None, None);
        check(
            r#"Bearer realm="a, b=c", scope="x y", error=insufficient_scope, resource_metadata="https://a/b?c=d""#,
            Some("https://a/b?c=d"),
            Some("x y"),
            Some("insufficient_scope"),
        );
        check(r#"Bearer scope="",error="a\"b""#, None, None, Some("a\"b"));
        check(r#"Basic realm="x", Bearer scope=y"#, None, Some("y"), None);
        check(r#"Bearer scope="open"#, None, Some("open"), None);
    }
}
