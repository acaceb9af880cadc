//! What comes back from a shell apart from the command's output: records on the second stream, a fence on the first.
//!
//! Invariant: a record is recognised by the shell's nonce however the reads split it; every other byte is handed on
//! unchanged and in order, and only what could be the beginning of a record is held back.

/// Most bytes of one record: more is not a record. State that is carried in-band is the largest thing that is one.
const RECORD_MAX: usize = 64 << 20;
const MARK: u8 = 0x1e;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The command was not begun: the snapshot is gone (`nosnap`) or must be loaded late (`late`), a variable for it alone is
    /// read-only (`readonly NAME`), or the shell ended before it (`unread`).
    NotRun(String),
    /// The directory is gone; the command starts in this one.
    Fallback(Vec<u8>),
    /// The command's own directory cannot be entered; nothing ran.
    NoDirectory(String),
    /// The command starts in its own directory, which is this one.
    Started(Vec<u8>),
    /// Functions and aliases, where no file can be written.
    Functions(Vec<u8>),
    /// Variables, where no file can be written.
    Variables(Vec<u8>),
    /// The command has ended and its state is saved, or not.
    End(End),
}

/// The state of the shell at the end of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The exit code.
    pub code: i32,
    /// PWD.
    pub pwd: Vec<u8>,
    /// OLDPWD, empty when unset.
    pub oldpwd: Vec<u8>,
    /// SHELLOPTS (for sh: `$-`).
    pub shellopts: String,
    /// BASHOPTS.
    pub bashopts: String,
    /// Whether the command started something in the background.
    pub background: bool,
    /// Whether the user's own EXIT trap runs after this record.
    pub trap_follows: bool,
    /// Whether the state was written whole.
    pub whole: bool,
}

const END_FIELDS: usize = 8;

/// Takes records out of a stream.
#[derive(Debug)]
pub struct Parser {
    mark: [u8; 17],
    held: Vec<u8>,
}

impl Parser {
    /// Makes a parser for a nonce of 16 characters.
    pub fn new(nonce: &str) -> Self {
        Self { mark: mark(nonce), held: Vec::new() }
    }

    /// Takes bytes as they came; records go to `records`, everything else to `rest`.
    pub fn feed(&mut self, bytes: &[u8], records: &mut Vec<Record>, rest: &mut Vec<u8>) {
        let joined;
        let mut left = if self.held.is_empty() {
            bytes
        } else {
            self.held.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.held);
            joined.as_slice()
        };
        loop {
            let Some(at) = left.iter().position(|b| *b == MARK) else {
                rest.extend_from_slice(left);
                return;
            };
            rest.extend_from_slice(&left[..at]);
            left = &left[at..];
            match self.frame(left) {
                Frame::No => {
                    rest.push(MARK);
                    left = &left[1..];
                }
                Frame::Open => {
                    self.held = left.to_vec();
                    return;
                }
                Frame::Whole(record, len) => {
                    records.push(record);
                    left = &left[len..];
                }
            }
        }
    }

    /// Gives what is held back at the end of the stream. The piece of a record that never came whole is ours: dropped.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        // Marker, kind, nonce, NUL: with less it may have been the user's.
        if held.len() > self.mark.len() + 1 { Vec::new() } else { held }
    }

    /// Looks for a record at the beginning of bytes that start with the marker.
    fn frame(&self, bytes: &[u8]) -> Frame {
        let Some(kind) = bytes.get(1) else { return Frame::Open };
        let fields = match kind {
            b'X' | b'D' | b'W' | b'S' | b'F' | b'V' => 1,
            b'E' => END_FIELDS,
            _ => return Frame::No,
        };
        let have = bytes.len().min(self.mark.len() + 2);
        let same = bytes[2..have].iter().zip(self.mark[1..].iter().chain(&[0])).all(|(a, b)| a == b);
        if !same {
            return Frame::No;
        }
        if have < self.mark.len() + 2 {
            return Frame::Open;
        }
        let body = &bytes[have..];
        let mut values = Vec::with_capacity(fields);
        let mut from = 0;
        while values.len() < fields {
            let Some(len) = body[from..].iter().position(|b| *b == 0) else {
                return if bytes.len() > RECORD_MAX { Frame::No } else { Frame::Open };
            };
            values.push(&body[from..from + len]);
            from += len + 1;
        }
        Frame::Whole(record(*kind, &values), have + from)
    }
}

enum Frame {
    No,
    Open,
    Whole(Record, usize),
}

fn record(kind: u8, values: &[&[u8]]) -> Record {
    let text = |i: usize| String::from_utf8_lossy(values[i]).into_owned();
    match kind {
        b'X' => Record::NotRun(text(0)),
        b'D' => Record::Fallback(values[0].to_vec()),
        b'W' => Record::NoDirectory(text(0)),
        b'S' => Record::Started(values[0].to_vec()),
        b'F' => Record::Functions(values[0].to_vec()),
        b'V' => Record::Variables(values[0].to_vec()),
        _ => Record::End(end(values)),
    }
}

fn end(values: &[&[u8]]) -> End {
    let text = |i: usize| String::from_utf8_lossy(values[i]).into_owned();
    End {
        code: text(0).parse().unwrap_or(-1),
        pwd: values[1].to_vec(),
        oldpwd: values[2].to_vec(),
        shellopts: text(3),
        bashopts: text(4),
        background: !values[5].is_empty(),
        trap_follows: values[6] != b"0",
        whole: values[7] == b"ok",
    }
}

/// Reads the record of a command that could only leave it in a file.
pub fn from_file(bytes: &[u8], nonce: &str) -> Option<End> {
    let (mut records, mut rest) = (Vec::new(), Vec::new());
    Parser::new(nonce).feed(bytes, &mut records, &mut rest);
    records.into_iter().find_map(|r| if let Record::End(end) = r { Some(end) } else { None })
}

fn mark(nonce: &str) -> [u8; 17] {
    let mut out = [MARK; 17];
    for (to, from) in out[1..].iter_mut().zip(nonce.bytes()) {
        *to = from;
    }
    out
}

/// Takes the fence out of stdout: it says that the shell itself will write no more. A shell that is ended by a signal may write it
/// twice; nobody else can.
#[derive(Debug)]
pub struct Fence {
    mark: [u8; 17],
    held: usize,
    seen: bool,
}

impl Fence {
    /// Makes a filter for a nonce of 16 characters.
    pub fn new(nonce: &str) -> Self {
        Self { mark: mark(nonce), held: 0, seen: false }
    }

    /// Tells whether the fence has come.
    pub fn seen(&self) -> bool {
        self.seen
    }

    /// Hands bytes on without the fence. In the ordinary case that is one slice and nothing is copied.
    pub fn feed<'a>(&mut self, bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if self.held == 0 && !bytes.contains(&MARK) {
            return bytes;
        }
        scratch.clear();
        scratch.extend_from_slice(&self.mark[..self.held]);
        scratch.extend_from_slice(bytes);
        self.held = 0;
        let mut from = 0;
        while let Some(at) = scratch[from..].iter().position(|b| *b == MARK).map(|i| i + from) {
            let len = (scratch.len() - at).min(self.mark.len());
            if scratch[at..at + len] != self.mark[..len] {
                from = at + 1;
            } else if len == self.mark.len() {
                scratch.drain(at..at + len);
                self.seen = true;
                from = at;
            } else {
                self.held = len;
                scratch.truncate(at);
                return scratch;
            }
        }
        scratch
    }

    /// Gives what is held back at the end of the stream.
    pub fn finish(&mut self) -> &[u8] {
        &self.mark[..std::mem::take(&mut self.held)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "0123456789abcdef";

    fn stream() -> (Vec<u8>, Vec<Record>, Vec<u8>) {
        let end = "7\0/usr\0/\0braceexpand\0progcomp\0\x30\0\x30\0ok\0";
        let text = format!(
            "err one\n\x1eD{NONCE}\0/tmp\0two\x1e\x1eE\x1eEfedcba9876543210\0x\0\x1eS{NONCE}\0/a\nb\0\x1eE{NONCE}\0{end}late\x1eE{NONCE}"
        );
        let rest = b"err one\ntwo\x1e\x1eE\x1eEfedcba9876543210\0x\0late".to_vec();
        let records = vec![
            Record::Fallback(b"/tmp".to_vec()),
            Record::Started(b"/a\nb".to_vec()),
            Record::End(End {
                code: 7,
                pwd: b"/usr".to_vec(),
                oldpwd: b"/".to_vec(),
                shellopts: "braceexpand".into(),
                bashopts: "progcomp".into(),
                background: true,
                trap_follows: false,
                whole: true,
            }),
        ];
        (text.into_bytes(), records, rest)
    }

    #[test]
    fn records_survive_a_split_at_every_two_bytes() {
        let (bytes, want, rest) = stream();
        for a in 0..bytes.len() {
            for b in [a + 1, a + 2, a + 20] {
                let b = b.min(bytes.len());
                let (mut records, mut out) = (Vec::new(), Vec::new());
                let mut parser = Parser::new(NONCE);
                for part in [&bytes[..a], &bytes[a..b], &bytes[b..]] {
                    parser.feed(part, &mut records, &mut out);
                }
                // A marker with kind and nonce but no NUL is not ours for certain: it is handed on.
                out.extend(parser.finish());
                assert_eq!(records, want, "split at {a}, {b}");
                assert_eq!(out, [rest.as_slice(), format!("\x1eE{NONCE}").as_bytes()].concat(), "split at {a}, {b}");
            }
        }
    }

    #[test]
    fn only_what_may_be_a_record_is_held_back() {
        let (mut records, mut out) = (Vec::new(), Vec::new());
        let mut parser = Parser::new(NONCE);
        parser.feed(b"prompt> ", &mut records, &mut out);
        assert_eq!(out, b"prompt> ");
        parser.feed(b"\x1eE0123", &mut records, &mut out);
        assert_eq!(out, b"prompt> ");
        parser.feed(b"9", &mut records, &mut out);
        assert_eq!(out, b"prompt> \x1eE01239");
    }

    #[test]
    fn a_record_cut_off_by_the_end_is_dropped() {
        let (mut records, mut out) = (Vec::new(), Vec::new());
        let mut parser = Parser::new(NONCE);
        parser.feed(format!("a\x1eE{NONCE}\x000\x00/usr").as_bytes(), &mut records, &mut out);
        out.extend(parser.finish());
        assert_eq!((records.len(), out), (0, b"a".to_vec()));
    }

    #[test]
    fn the_fence_is_taken_out_wherever_reads_split_it() {
        // A shell with a stopped child that got TERM wrote it twice, and the second one was shown as output.
        let bytes = format!("out\x1e0123\x1e\x1e{NONCE}after\x1e{NONCE}").into_bytes();
        let want = b"out\x1e0123\x1eafter".to_vec();
        for a in 0..=bytes.len() {
            for b in a..=bytes.len() {
                let mut fence = Fence::new(NONCE);
                let (mut scratch, mut out) = (Vec::new(), Vec::new());
                for part in [&bytes[..a], &bytes[a..b], &bytes[b..]] {
                    out.extend_from_slice(fence.feed(part, &mut scratch));
                }
                assert!(fence.seen());
                out.extend_from_slice(fence.finish());
                assert_eq!(out, want, "split at {a}, {b}");
            }
        }
    }

    #[test]
    fn half_a_fence_at_the_end_was_the_users() {
        let mut fence = Fence::new(NONCE);
        let mut scratch = Vec::new();
        assert_eq!(fence.feed(b"x\x1e01", &mut scratch), b"x");
        assert_eq!(fence.finish(), b"\x1e01");
    }
}
