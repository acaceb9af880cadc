//! `qd send`: writes to the stdin of a command that was started with one.
//!
//! Invariant: it is said whether the command has it, or that it waits; what is sent is in no message.

use super::args::{Global, SendArgs};
use super::caller;
use super::failure::Failure;
use super::screen::Screen;
use crate::protocol::calls::SendCall;

/// Sends.
pub(crate) async fn run(global: &Global, args: &SendArgs, screen: &Screen) -> Result<u8, Failure> {
    let client = caller::need(global, std::slice::from_ref(&args.id)).await?;
    let call = SendCall { process: args.id.clone(), text: text(args), eof: args.eof, expect_offset: args.expect_offset };
    let sent = client.call(call).await?;
    if args.json {
        screen.json(&sent)?;
    }
    if sent.waiting > 0 {
        let (id, waiting) = (&sent.process.id, sent.waiting);
        // Over a link, silence may also be the link's.
        let doubt =
            if sent.process.detached { "; if its machine is lost before it does, the terminal UI and `qd ps --json` say so" } else { "" };
        screen.say(&format!("{id} has not read it yet: {waiting} bytes wait for it{doubt}"));
    }
    Ok(0)
}

fn text(args: &SendArgs) -> String {
    let mut text = args.text.clone().unwrap_or_default();
    if let Some(line) = &args.submit {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Command;
    use std::ffi::OsString;

    fn parsed(words: &[&str]) -> Option<SendArgs> {
        let words = ["qd", "send", "k7f3"].iter().chain(words).map(OsString::from);
        match crate::cli::parse(words).ok()?.command {
            Some(Command::Send(args)) => Some(args),
            _ => None,
        }
    }

    #[test]
    fn a_line_follows_the_text_and_something_must_be_sent() {
        assert_eq!(text(&parsed(&["--submit", "yes"]).unwrap()), "yes\n");
        assert_eq!(text(&parsed(&["--submit", "-b", "--text", "-a"]).unwrap()), "-a-b\n");
        let end = parsed(&["--eof"]).unwrap();
        assert!(end.eof && text(&end).is_empty());
        assert!(parsed(&[]).is_none() && parsed(&["--expect-offset", "3"]).is_none());
    }
}
