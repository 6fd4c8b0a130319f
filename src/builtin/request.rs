//! What a request holds: words, numbers, sums, paths, quotations.

use serde_json::{Map, Value};

/// A text of the user, or a part of it.
pub(super) struct Request {
    pub(super) text: String,
    /// The words in lower case, each between spaces, so that phrases are found at word bounds.
    plain: String,
    pieces: Vec<Piece>,
}

/// Something to work out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sum {
    /// As an expression, for example `2 * (3 + 4)`.
    pub(super) text: String,
    /// Its two numbers, if it has just two.
    pub(super) simple: Option<(f64, char, f64)>,
}

/// A part of a text for whoever looks for numbers.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Number(f64, String),
    /// An operator or a parenthesis.
    Sign(char),
    Word(String),
    Stop,
}

/// Words that stand for an operator between numbers.
const INFIX: &[(&str, char)] = &[
    ("plus", '+'),
    ("minus", '-'),
    ("times", '*'),
    ("x", '*'),
    ("multiplied", '*'),
    ("divided", '/'),
    ("over", '/'),
    ("modulo", '%'),
];

/// Words that stand before their numbers.
const PREFIX: &[(&str, char)] = &[
    ("add", '+'),
    ("sum", '+'),
    ("multiply", '*'),
    ("product", '*'),
    ("subtract", '-'),
    ("difference", '-'),
    ("divide", '/'),
];

/// Words between a prefix and its numbers.
const FILLERS: &[&str] = &["and", "to", "by", "from", "with", "of", "the", "numbers", "between"];

/// Words after which the subject of a request comes.
const BEFORE_TOPIC: &[&str] = &["in", "for", "about", "to", "with", "of", "at", "on", "named"];

/// Names of files that have no dot.
const PLAIN_FILES: &[&str] = &["README", "LICENSE", "Makefile", "Dockerfile"];

impl Request {
    pub(super) fn new(text: &str) -> Request {
        let words = text.to_lowercase().replace("what's", "what is");
        let words: Vec<&str> = words
            .split(|it: char| !it.is_alphanumeric() && it != '\'')
            .filter(|word| !word.is_empty())
            .collect();
        let plain = format!(" {} ", words.join(" "));
        Request { text: text.to_owned(), plain, pieces: pieces(text) }
    }

    /// Whether it has one of the phrases, in lower case, at word bounds.
    pub(super) fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.plain.contains(&format!(" {phrase} ")))
    }

    /// Whether it is one of the phrases and nothing else.
    pub(super) fn is(&self, phrases: &[&str]) -> bool {
        phrases.contains(&self.plain.trim())
    }

    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.plain.split_whitespace()
    }

    /// The parts that shall be done one after another.
    pub(super) fn steps(&self) -> Vec<Request> {
        let lower = self.text.to_ascii_lowercase();
        let mut steps = Vec::new();
        let mut start = 0;
        for (place, _) in lower.match_indices(" then ") {
            steps.push(&self.text[start..place]);
            start = place + " then ".len();
        }
        steps.push(&self.text[start..]);
        steps.into_iter().map(Request::new).collect()
    }

    /// What comes after the word, if it comes at all.
    pub(super) fn word_after(&self, words: &[&str]) -> Option<&str> {
        let mut all = self.text.split_whitespace().map(trimmed);
        all.find(|word| words.contains(&word.to_lowercase().as_str()))?;
        all.find(|word| !word.eq_ignore_ascii_case("the"))
    }

    /// Words that look like files, without doubles.
    pub(super) fn paths(&self) -> Vec<&str> {
        let mut paths = Vec::new();
        for word in self.text.split_whitespace().map(trimmed) {
            if is_path(word) && !paths.contains(&word) {
                paths.push(word);
            }
        }
        paths
    }

    /// The numbers that belong to no sum.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let inside = self.infix().into_iter().map(|(range, _)| range).collect::<Vec<_>>();
        let pieces = self.pieces.iter().enumerate();
        pieces
            .filter(|(place, _)| !inside.iter().any(|range| range.contains(place)))
            .filter_map(|(_, piece)| number(piece))
            .collect()
    }

    /// Whether it asks what the numbers in files add up to.
    pub(super) fn asks_for_total(&self) -> bool {
        self.says(&["add up", "adds up", "sum up", "sum of", "total", "altogether"])
            && !self.paths().is_empty()
    }

    /// What it asks to work out.
    pub(super) fn sums(&self) -> Vec<Sum> {
        let infix = self.infix().into_iter().map(|(_, sum)| sum);
        infix.chain(self.prefix()).collect()
    }

    /// A text in quotation marks.
    pub(super) fn quoted(&self) -> Option<&str> {
        ['"', '`', '“'].into_iter().find_map(|open| {
            let close = if open == '“' { '”' } else { open };
            let start = self.text.find(open)? + open.len_utf8();
            let length = self.text[start..].find(close)?;
            Some(&self.text[start..start + length])
        })
    }

    /// An object in JSON.
    pub(super) fn object(&self) -> Option<Map<String, Value>> {
        let text = &self.text[self.text.find('{')?..];
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
        values.next()?.ok()
    }

    /// What it is about: what is quoted, what follows a word like `about`, or all of it.
    pub(super) fn topic(&self) -> &str {
        if let Some(quoted) = self.quoted() {
            return quoted;
        }
        let topic = self.text.rsplit_once(": ").map(|(_, topic)| topic).or_else(|| {
            let mut words = self.text.split_whitespace();
            let word = words.rfind(|word| BEFORE_TOPIC.contains(word))?;
            self.text.rsplit_once(&format!(" {word} ")).map(|(_, topic)| topic)
        });
        let topic = topic.map(trimmed).filter(|topic| !topic.is_empty());
        topic.unwrap_or_else(|| trimmed(&self.text))
    }

    /// Sums with operators between numbers, and where they stand.
    fn infix(&self) -> Vec<(std::ops::Range<usize>, Sum)> {
        let belongs = |piece: &Piece| matches!(piece, Piece::Number(..) | Piece::Sign(_));
        let mut found = Vec::new();
        let mut start = 0;
        while start < self.pieces.len() {
            let rest = &self.pieces[start..];
            let length = rest.iter().take_while(|piece| belongs(piece)).count();
            if let Some(sum) = infix_sum(&rest[..length]) {
                found.push((start..start + length, sum));
            }
            start += length + 1;
        }
        found
    }

    /// Sums like `add 1 and 2`.
    fn prefix(&self) -> Vec<Sum> {
        let mut found = Vec::new();
        for (place, piece) in self.pieces.iter().enumerate() {
            let Piece::Word(word) = piece else { continue };
            let Some((_, sign)) = PREFIX.iter().find(|(name, _)| name == word) else { continue };
            let mut from = false;
            let mut numbers = Vec::new();
            for piece in &self.pieces[place + 1..] {
                match piece {
                    Piece::Number(value, text) => numbers.push((*value, text.as_str())),
                    Piece::Stop => {}
                    Piece::Word(word) if FILLERS.contains(&word.as_str()) => from |= word == "from",
                    _ => break,
                }
            }
            if from && *sign == '-' {
                numbers.reverse();
            }
            found.extend(sum_of(&numbers, *sign));
        }
        found
    }
}

impl Sum {
    /// What it gives, if it has just two numbers.
    pub(super) fn value(&self) -> Option<f64> {
        let (a, sign, b) = self.simple?;
        let value = match sign {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            '/' => a / b,
            '%' => a % b,
            '^' => a.powf(b),
            _ => return None,
        };
        Some(value).filter(|value| value.is_finite())
    }
}

/// A word without the punctuation around it.
fn trimmed(word: &str) -> &str {
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'', '`', ' ']);
    word.trim_start_matches(['(', '"', '\'', '`', ' '])
}

fn is_path(word: &str) -> bool {
    if word.contains("://") || !word.chars().any(char::is_alphabetic) {
        return false;
    }
    let extension = word.rsplit_once('.').is_some_and(|(stem, extension)| {
        let known = (1..=5).contains(&extension.len())
            && extension.chars().all(|it| it.is_ascii_alphanumeric());
        // `e.g` is no file.
        known && stem.len() + extension.len() > 2
    });
    extension || word.contains('/') || word.contains('\\') || PLAIN_FILES.contains(&word)
}

fn number(piece: &Piece) -> Option<f64> {
    if let Piece::Number(value, _) = piece { Some(*value) } else { None }
}

/// Cuts a text into numbers, signs and words. A path is a word, whatever it holds.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for word in text.split_whitespace() {
        if is_path(trimmed(word)) {
            pieces.push(Piece::Word(word.to_lowercase()));
        } else {
            cut(&mut pieces, word);
        }
    }
    pieces
}

fn cut(pieces: &mut Vec<Piece>, mut rest: &str) {
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if first.is_alphanumeric() => {
                let inside = |it: char| it.is_alphanumeric() || matches!(it, '.' | '_');
                rest.find(|it| !inside(it)).unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        match first {
            '+' | '-' | '*' | '/' | '%' | '^' | '(' | ')' => pieces.push(Piece::Sign(first)),
            '×' | '·' => pieces.push(Piece::Sign('*')),
            '÷' => pieces.push(Piece::Sign('/')),
            '−' => pieces.push(Piece::Sign('-')),
            _ if first.is_alphanumeric() => push_word(pieces, piece.trim_end_matches('.')),
            _ => pieces.push(Piece::Stop),
        }
    }
}

fn push_word(pieces: &mut Vec<Piece>, word: &str) {
    if let Some(value) =
        word.parse().ok().filter(|_| word.starts_with(|it: char| it.is_ascii_digit()))
    {
        pieces.push(Piece::Number(value, word.to_owned()));
        return;
    }
    let word = word.to_lowercase();
    let after_sign = matches!(pieces.last(), Some(Piece::Sign(_)));
    if word == "by" && after_sign {
        return;
    }
    let after_number = matches!(pieces.last(), Some(Piece::Number(..) | Piece::Sign(')')));
    let sign = INFIX.iter().find(|(name, _)| after_number && *name == word);
    pieces.push(sign.map_or(Piece::Word(word), |(_, sign)| Piece::Sign(*sign)));
}

fn infix_sum(mut pieces: &[Piece]) -> Option<Sum> {
    while let [rest @ .., Piece::Sign(sign)] = pieces
        && *sign != ')'
    {
        pieces = rest;
    }
    while let [Piece::Sign(sign), rest @ ..] = pieces
        && !matches!(sign, '(' | '-')
    {
        pieces = rest;
    }
    // A date such as 2026-01-31 is no sum.
    if let [
        Piece::Number(..),
        Piece::Sign('-'),
        Piece::Number(..),
        Piece::Sign('-'),
        Piece::Number(year, _),
    ] = pieces
        && (pieces.len() == 5 && *year < 32.0)
        && matches!(pieces[0], Piece::Number(first, _) if first > 1900.0)
    {
        return None;
    }
    let simple = match pieces {
        [Piece::Number(a, _), Piece::Sign(sign), Piece::Number(b, _)] => Some((*a, *sign, *b)),
        _ => None,
    };
    let opened = pieces.iter().filter(|piece| **piece == Piece::Sign('(')).count();
    let closed = pieces.iter().filter(|piece| **piece == Piece::Sign(')')).count();
    let numbers = pieces.iter().filter_map(number).count();
    let signs = pieces.iter().filter(|it| matches!(it, Piece::Sign(sign) if !"()".contains(*sign)));
    (numbers > 1 && signs.count() >= numbers - 1 && opened == closed)
        .then(|| Sum { text: written(pieces), simple })
}

fn sum_of(numbers: &[(f64, &str)], sign: char) -> Option<Sum> {
    let simple = match numbers {
        [] | [_] => return None,
        [(a, _), (b, _)] => Some((*a, sign, *b)),
        _ => None,
    };
    let texts: Vec<&str> = numbers.iter().map(|(_, text)| *text).collect();
    Some(Sum { text: texts.join(&format!(" {sign} ")), simple })
}

/// An expression as people write it: spaces around operators, none inside parentheses.
fn written(pieces: &[Piece]) -> String {
    let mut text = String::new();
    let mut after_value = false;
    for piece in pieces {
        match piece {
            Piece::Number(_, number) => text.push_str(number),
            Piece::Sign(sign @ ('(' | ')')) => text.push(*sign),
            Piece::Sign(sign) if after_value => {
                text.push(' ');
                text.push(*sign);
                text.push(' ');
            }
            Piece::Sign(sign) => text.push(*sign),
            Piece::Word(_) | Piece::Stop => {}
        }
        after_value = matches!(piece, Piece::Number(..) | Piece::Sign(')'));
    }
    text
}
