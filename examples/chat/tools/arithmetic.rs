//! Arithmetic expressions: `+ - * / % ^`, parentheses, signs.

/// Calculates an expression.
pub(super) fn evaluate(expression: &str) -> Result<f64, String> {
    let mut rest = Rest { text: expression, depth: 0 };
    let value = rest.sum()?;
    match rest.peek() {
        None if value.is_finite() => Ok(value),
        None => Err("the result is no number".to_owned()),
        Some(_) => Err(rest.unexpected()),
    }
}

/// What is left to read.
struct Rest<'a> {
    text: &'a str,
    depth: usize,
}

impl Rest<'_> {
    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let next = self.product()?;
            value = if sign == '+' { value + next } else { value - next };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        while let Some(sign) = self.take(&['*', '/', '%']) {
            let next = self.signed()?;
            value = match sign {
                '*' => value * next,
                _ if next == 0.0 => return Err("a division by zero".to_owned()),
                '/' => value / next,
                _ => value % next,
            };
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<f64, String> {
        match self.take(&['+', '-']) {
            Some('-') => self.nested(Rest::signed).map(|value| -value),
            Some(_) => self.nested(Rest::signed),
            None => self.power(),
        }
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.value()?;
        if self.take(&['^']).is_some() {
            return Ok(base.powf(self.nested(Rest::signed)?));
        }
        Ok(base)
    }

    fn value(&mut self) -> Result<f64, String> {
        if self.take(&['(']).is_some() {
            let value = self.nested(Rest::sum)?;
            return self.take(&[')']).map(|_| value).ok_or_else(|| self.unexpected());
        }
        self.peek();
        let end = self.text.find(|it: char| !it.is_ascii_digit() && it != '.');
        let (number, after) = self.text.split_at(end.unwrap_or(self.text.len()));
        let value = number.parse().map_err(|_| self.unexpected())?;
        self.text = after;
        Ok(value)
    }

    /// Reads a part in a part, but not without end.
    fn nested(&mut self, read: impl Fn(&mut Self) -> Result<f64, String>) -> Result<f64, String> {
        const DEEPEST: usize = 100;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("too many parentheses and signs in each other".to_owned());
        }
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn peek(&mut self) -> Option<char> {
        self.text = self.text.trim_start();
        self.text.chars().next()
    }

    fn take(&mut self, signs: &[char]) -> Option<char> {
        let sign = self.peek().filter(|sign| signs.contains(sign))?;
        self.text = &self.text[sign.len_utf8()..];
        Some(sign)
    }

    fn unexpected(&self) -> String {
        match self.text.split_whitespace().next() {
            Some(word) => format!("`{word}` was not expected"),
            None => "the expression is not complete".to_owned(),
        }
    }
}
