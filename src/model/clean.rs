//! Takes escape sequences and control characters out of a stream of bytes, whatever the pieces it comes in.
//!
//! Invariant: text is never lost to a sequence that does not end: one of more than 4 KiB, or one that meets a line end, is over.

const LONGEST: usize = 4096;
const ESC: u8 = 0x1b;

/// Where in a sequence we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// In text.
    #[default]
    Text,
    /// After a CR: its line end may follow.
    Return,
    /// After the byte C2: a C1 control character may follow.
    Lead,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte.
    Intermediate,
    /// In a control sequence.
    Csi,
    /// In a string (title, device control, ...), after this many bytes.
    Text2 {
        /// Bytes of the string so far.
        len: usize,
        /// Whether the last one may begin the end of the string.
        ending: bool,
    },
}

/// The filter.
#[derive(Debug, Default)]
pub struct Clean {
    place: Place,
}

impl Clean {
    /// Takes a piece and gives what is left of it.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 2);
        for byte in bytes {
            self.byte(*byte, &mut out);
        }
        out
    }

    /// Gives what was held back at the end of the stream.
    pub fn end(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.place) {
            Place::Return => vec![b'\r'],
            Place::Lead => vec![0xc2],
            _ => Vec::new(),
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.place = match self.place {
            Place::Text => text(byte, out),
            Place::Return => {
                if byte != b'\n' {
                    out.push(b'\r');
                }
                text(byte, out)
            }
            Place::Lead => match byte {
                0x9b => Place::Csi,
                0x90 | 0x98 | 0x9d..=0x9f => Place::Text2 { len: 0, ending: false },
                0x80..=0x9f => Place::Text,
                byte => {
                    out.push(0xc2);
                    text(byte, out)
                }
            },
            Place::Escape => match byte {
                b'[' => Place::Csi,
                b']' | b'P' | b'X' | b'^' | b'_' => Place::Text2 { len: 0, ending: false },
                0x20..=0x2f => Place::Intermediate,
                0x30..=0x7e => Place::Text,
                byte => text(byte, out),
            },
            Place::Intermediate => match byte {
                0x20..=0x2f => Place::Intermediate,
                0x30..=0x7e => Place::Text,
                byte => text(byte, out),
            },
            Place::Csi => match byte {
                0x20..=0x3f => Place::Csi,
                0x40..=0x7e => Place::Text,
                byte => text(byte, out),
            },
            Place::Text2 { len, ending } => string(byte, len, ending, out),
        };
    }
}

fn text(byte: u8, out: &mut Vec<u8>) -> Place {
    match byte {
        ESC => Place::Escape,
        b'\r' => Place::Return,
        0xc2 => Place::Lead,
        b'\n' | b'\t' | 0x20..=0x7e | 0x80.. => {
            out.push(byte);
            Place::Text
        }
        _ => Place::Text,
    }
}

fn string(byte: u8, len: usize, ending: bool, out: &mut Vec<u8>) -> Place {
    match byte {
        // BEL, CAN, SUB.
        0x07 | 0x18 | 0x1a => Place::Text,
        b'\\' | 0x9c if ending => Place::Text,
        b'\n' => text(byte, out),
        _ if len >= LONGEST => text(byte, out),
        byte => Place::Text2 { len: len + 1, ending: byte == ESC || byte == 0xc2 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(bytes: &[u8], size: usize) -> String {
        let mut clean = Clean::default();
        let mut out: Vec<u8> = bytes.chunks(size).flat_map(|piece| clean.feed(piece)).collect();
        out.extend(clean.end());
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn sequences_go_and_text_stays_wherever_the_pieces_end() {
        let table = [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\c", "ablinkc"),
            ("\x1bPq#0;1\x1b\\x\x1b_apc\x1b\\y", "xy"),
            ("a\x1b(Bb\x1b7c\x1bc", "abc"),
            ("a\u{9b}31mb\u{9d}0;t\u{9c}c\u{85}d", "abcd"),
            ("50%\r100%\r\ndone\r\n", "50%\r100%\ndone\n"),
            ("bell\x07 nul\0 del\x7f bs\x08", "bell nul del bs"),
            ("£ ünï 日本 \u{a0}x", "£ ünï 日本 \u{a0}x"),
            ("end\r", "end\r"),
            ("x\x1b", "x"),
            ("\x1b\x1b[31mx", "x"),
        ];
        for (text, want) in table {
            for size in [1, 2, 3, 100] {
                assert_eq!(clean(text.as_bytes(), size), want, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_sequence_that_does_not_end_takes_no_text_with_it() {
        assert_eq!(clean(b"\x1b]0;title\nnext\n", 3), "\nnext\n");
        let long = [b"\x1b]0;".as_slice(), &[b'x'; 10_000]].concat();
        assert_eq!(clean(&long, 100).len(), 10_000 + 2 - LONGEST);
        assert_eq!(clean(b"\x1b[31\nx", 1), "\nx");
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        let mut clean = Clean::default();
        assert_eq!(clean.feed(b"\xff\xfe\x80"), b"\xff\xfe\x80");
    }
}
