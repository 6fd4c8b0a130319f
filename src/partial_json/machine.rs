//! The tolerant reader: takes the text as it comes and keeps the tree up to date.

use std::mem;

use memchr::memchr2;
use serde_json::{Number, Value};

use crate::partial_json::tree::{Bracket, Tree};

/// Containers below this level are read over, not shown: the finished text is refused for them anyway.
pub(super) const MAX_LEVELS: usize = 128;

/// A scalar that is longer is shown when it has ended, so that no delta costs more than its own length.
const MAX_OPEN_SCALAR: usize = 64;

/// Where the reader stands. It walks over the text once; nothing is ever read twice but an open scalar.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    place: Place,
    lexeme: Lexeme,
    /// All open containers, shown or not.
    open: Vec<Bracket>,
    /// The key of the member that is being read.
    key: String,
    target: Target,
    /// The first half of a surrogate pair, held back until the second one comes.
    high: Option<u16>,
}

/// What the grammar has next. Commas and colons may be missing, so this alone says what a string is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The first character; everything but an object shows nothing for ever.
    Root,
    /// A key, or the end of the object.
    Key,
    /// The value that belongs to the key.
    Member,
    /// A value, or the end of the array.
    Element,
    /// The root has ended or the text makes no sense any more: the rest is left alone.
    End,
}

/// The piece of text that is open. Numbers are offsets where it began.
#[derive(Debug, Clone, Copy)]
enum Lexeme {
    Between,
    /// A number, a literal, or a word that is neither.
    Scalar(usize),
    Text,
    /// A backslash in a string and what follows it.
    Escape(usize),
}

/// Where the characters of the open string go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Key,
    Tree,
    Nowhere,
}

impl Machine {
    pub(super) fn new() -> Machine {
        Machine {
            place: Place::Root,
            lexeme: Lexeme::Between,
            open: Vec::new(),
            key: String::new(),
            target: Target::Nowhere,
            high: None,
        }
    }

    /// Reads on from byte `from`, which is where the last call stopped.
    pub(super) fn read(&mut self, text: &str, from: usize, tree: &mut Tree) {
        let mut at = from;
        while at < text.len() && self.place != Place::End {
            at = match self.lexeme {
                Lexeme::Between => self.between(text.as_bytes()[at], at, tree),
                Lexeme::Scalar(start) => self.scalar(text, start, at, tree),
                Lexeme::Text => self.text(text, at, tree),
                Lexeme::Escape(start) => self.escape(text, start, at, tree),
            };
        }
        if let Lexeme::Scalar(start) = self.lexeme
            && self.is_shown(tree)
        {
            tree.show_scalar(&self.key, open_scalar(&text[start..]));
        }
    }

    /// Whether what comes next belongs into the tree.
    fn is_shown(&self, tree: &Tree) -> bool {
        self.place != Place::Key && self.open.len() == tree.levels()
    }

    fn between(&mut self, byte: u8, at: usize, tree: &mut Tree) -> usize {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' if self.place == Place::Root => {
                self.open.push(Bracket::Object);
                self.place = Place::Key;
            }
            _ if self.place == Place::Root => self.place = Place::End,
            b'{' => self.begin_container(Bracket::Object, tree),
            b'[' => self.begin_container(Bracket::Array, tree),
            b'}' => self.end_container(Bracket::Object, tree),
            b']' => self.end_container(Bracket::Array, tree),
            b':' => {}
            b',' => self.end_value(),
            b'"' => self.begin_string(tree),
            _ => {
                self.lexeme = Lexeme::Scalar(at);
                return at;
            }
        }
        at + 1
    }

    fn begin_container(&mut self, bracket: Bracket, tree: &mut Tree) {
        if self.is_shown(tree) && self.open.len() < MAX_LEVELS {
            tree.open(mem::take(&mut self.key), bracket);
        }
        self.open.push(bracket);
        self.end_value();
    }

    /// Closes the innermost container. The wrong bracket ends the reading: any guess about it could show nonsense.
    fn end_container(&mut self, bracket: Bracket, tree: &mut Tree) {
        if self.open.last() != Some(&bracket) {
            self.place = Place::End;
            return;
        }
        if self.open.len() == tree.levels() {
            tree.close();
        }
        self.open.pop();
        self.end_value();
    }

    fn end_value(&mut self) {
        self.place = match self.open.last() {
            Some(Bracket::Object) => Place::Key,
            Some(Bracket::Array) => Place::Element,
            None => Place::End,
        };
    }

    fn scalar(&mut self, text: &str, start: usize, at: usize, tree: &mut Tree) -> usize {
        let Some(length) = text.as_bytes()[at..].iter().position(|&it| ends_scalar(it)) else {
            return text.len();
        };
        let end = at + length;
        if self.is_shown(tree) {
            tree.show_scalar(&self.key, complete_scalar(&text[start..end]));
            tree.settle_scalar();
        }
        self.lexeme = Lexeme::Between;
        self.end_value();
        end
    }

    fn begin_string(&mut self, tree: &mut Tree) {
        self.target = if self.is_shown(tree) {
            tree.begin_string(mem::take(&mut self.key));
            Target::Tree
        } else if self.place == Place::Key {
            self.key.clear();
            Target::Key
        } else {
            Target::Nowhere
        };
        self.lexeme = Lexeme::Text;
    }

    fn text(&mut self, text: &str, at: usize, tree: &mut Tree) -> usize {
        let rest = &text[at..];
        let end = memchr2(b'"', b'\\', rest.as_bytes());
        let run = &rest[..end.unwrap_or(rest.len())];
        if !run.is_empty() {
            self.emit(run, tree);
        }
        let Some(end) = end else { return text.len() };
        if rest.as_bytes()[end] == b'\\' {
            self.lexeme = Lexeme::Escape(at + end);
        } else {
            self.give_up_pair(tree);
            self.lexeme = Lexeme::Between;
            match self.place {
                Place::Key => self.place = Place::Member,
                _ => self.end_value(),
            }
        }
        at + end + 1
    }

    /// Reads one more character of the escape at `start`; an escape that is none stands for itself.
    fn escape(&mut self, text: &str, start: usize, at: usize, tree: &mut Tree) -> usize {
        let byte = text.as_bytes()[at];
        let plain = match (at - start, byte) {
            (1, b'"' | b'\\' | b'/') => &text[at..=at],
            (1, b'b') => "\u{8}",
            (1, b'f') => "\u{c}",
            (1, b'n') => "\n",
            (1, b'r') => "\r",
            (1, b't') => "\t",
            (1, b'u') => return at + 1,
            (2..=4, _) if byte.is_ascii_hexdigit() => return at + 1,
            (5, _) if byte.is_ascii_hexdigit() => {
                self.unit(&text[start + 2..=at], tree);
                self.lexeme = Lexeme::Text;
                return at + 1;
            }
            _ => {
                self.emit(&text[start..at], tree);
                self.lexeme = Lexeme::Text;
                return at;
            }
        };
        self.emit(plain, tree);
        self.lexeme = Lexeme::Text;
        at + 1
    }

    /// Takes one UTF-16 unit, written as four digits.
    fn unit(&mut self, digits: &str, tree: &mut Tree) {
        let Ok(unit) = u16::from_str_radix(digits, 16) else { return };
        match (self.high, unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                self.high = None;
                self.write(&String::from_utf16_lossy(&[high, unit]), tree);
            }
            (_, 0xd800..=0xdbff) => {
                self.give_up_pair(tree);
                self.high = Some(unit);
            }
            _ => self.emit(&String::from_utf16_lossy(&[unit]), tree),
        }
    }

    /// Adds to the open string.
    fn emit(&mut self, piece: &str, tree: &mut Tree) {
        self.give_up_pair(tree);
        self.write(piece, tree);
    }

    /// Replaces the first half of a surrogate pair that has no second one.
    fn give_up_pair(&mut self, tree: &mut Tree) {
        if self.high.take().is_some() {
            self.write("\u{fffd}", tree);
        }
    }

    fn write(&mut self, piece: &str, tree: &mut Tree) {
        match self.target {
            Target::Key => self.key.push_str(piece),
            Target::Tree => tree.append(piece),
            Target::Nowhere => {}
        }
    }
}

fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b'{' | b'}' | b'[' | b']' | b'"')
}

/// What a scalar is that has ended; nothing if it is no JSON.
fn complete_scalar(text: &str) -> Option<Value> {
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        "null" => Some(Value::Null),
        _ => number(text),
    }
}

/// What a scalar shows that may go on: a literal from its first letter, a number without an unfinished exponent.
fn open_scalar(text: &str) -> Option<Value> {
    if text.len() > MAX_OPEN_SCALAR {
        return None;
    }
    for (word, value) in
        [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
    {
        if word.starts_with(text) {
            return Some(value);
        }
    }
    let mantissa = text.strip_suffix(['+', '-']).unwrap_or(text);
    match mantissa.strip_suffix(['e', 'E']) {
        Some(mantissa) => number(mantissa),
        None => number(text),
    }
}

fn number(text: &str) -> Option<Value> {
    // Looked at first, since a refusal by the parser allocates.
    if !text.ends_with(|it: char| it.is_ascii_digit()) {
        return None;
    }
    text.parse::<Number>().ok().map(Value::Number)
}
