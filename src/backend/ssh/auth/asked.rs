//! The ways in that a person answers: keyboard-interactive and password.
//!
//! Invariant: neither is begun without a person or a kept answer, so that no code is sent to a telephone for nobody; a refusal
//! is not repeated but for a password that was mistyped, and that once.

use super::key_file::unanswered;
use super::{Login, Offer};
use crate::backend::BackendError;
use crate::model::{Answer, Field, Question, Secret};
use russh::client::{AuthResult, KeyboardInteractiveAuthResponse as Reply};

/// Rounds of questions that a server may ask.
const MOST_ROUNDS: u32 = 20;
/// Questions in one round.
const MOST_FIELDS: usize = 16;
/// Longest text of a server that is shown, in characters.
const LONGEST: usize = 2_000;

impl Login<'_> {
    /// Answers what the server asks, round for round.
    pub(super) async fn keyboard(&mut self) -> Result<Offer, BackendError> {
        let desk = self.target.desk.clone();
        let kept = format!("keyboard {}", self.target.address());
        if !desk.person.there() && desk.text(&kept).is_none() {
            return Ok(self.unasked("an answer to its questions"));
        }
        "keyboard-interactive".clone_into(&mut self.trying);
        let started = self.handle.authenticate_keyboard_interactive_start(&self.target.user, None).await;
        let mut reply = self.reply(started)?;
        self.began = true;
        for round in 1.. {
            let (name, instructions, prompts) = match reply {
                Reply::Success => return self.judge(Ok(AuthResult::Success)),
                Reply::Failure { remaining_methods, partial_success } => {
                    desk.forget_text(&kept);
                    self.tried.push("keyboard-interactive".into());
                    return self.judge(Ok(AuthResult::Failure { remaining_methods, partial_success }));
                }
                Reply::InfoRequest { name, instructions, prompts } => (name, instructions, prompts),
            };
            if round > MOST_ROUNDS || prompts.len() > MOST_FIELDS {
                return Err(self.no_end());
            }
            let fields = prompts.iter().map(|p| Field { label: short(&p.prompt), echo: p.echo }).collect();
            let texts = self.answers(&kept, short(&name), short(&instructions), fields, round).await?;
            let texts = texts.iter().map(|text| text.expose().to_owned()).collect();
            let responded = self.handle.authenticate_keyboard_interactive_respond(texts).await;
            reply = self.reply(responded)?;
        }
        Ok(Offer::Refused)
    }

    /// Gets the answers of one round.
    async fn answers(
        &mut self,
        kept: &str,
        name: String,
        instructions: String,
        fields: Vec<Field>,
        round: u32,
    ) -> Result<Vec<Secret>, BackendError> {
        let desk = &self.target.desk;
        let count = fields.len();
        let may_keep = matches!(&fields[..], [one] if is_password(one));
        if may_keep && let Some(text) = desk.text(kept) {
            return Ok(vec![text]);
        }
        let question = Question::Challenge { name, instructions, fields, round, may_keep };
        if count == 0 {
            // Something to read only, as that a message was sent to a telephone.
            if !matches!(&question, Question::Challenge { name, instructions, .. } if name.is_empty() && instructions.is_empty()) {
                desk.person.tell(self.target.address(), question);
                self.quiet = false;
            }
            return Ok(Vec::new());
        }
        self.quiet = false;
        match desk.person.ask(self.target.address(), question).await {
            Answer::Texts { mut texts, keep } => {
                texts.resize(count, Secret::default());
                if keep && may_keep {
                    desk.keep_text(kept, texts[0].clone());
                }
                Ok(texts)
            }
            Answer::Cancel | Answer::Trust { .. } => Err(unanswered(&self.wanted("an answer to its questions"), &self.target.name)),
        }
    }

    /// Gives the password.
    pub(super) async fn password(&mut self) -> Result<Offer, BackendError> {
        let desk = self.target.desk.clone();
        let kept = format!("password {}", self.target.address());
        let mut again = false;
        loop {
            let (text, keep) = match desk.text(&kept) {
                Some(text) => (text, true),
                None if !desk.person.there() => return Ok(self.unasked("a password")),
                None => {
                    self.quiet = false;
                    match desk.person.ask(self.target.address(), Question::Password { again }).await {
                        Answer::Texts { mut texts, keep } => (texts.pop().unwrap_or_default(), keep),
                        Answer::Cancel | Answer::Trust { .. } => return Err(unanswered(&self.wanted("a password"), &self.target.name)),
                    }
                }
            };
            "a password".clone_into(&mut self.trying);
            let result = self.handle.authenticate_password(&self.target.user, text.expose()).await;
            self.began = true;
            let offer = self.judge(result.map_err(|e| e.to_string()))?;
            match offer {
                Offer::In | Offer::Partial => {
                    if keep {
                        desk.keep_text(&kept, text);
                    }
                    return Ok(offer);
                }
                Offer::Refused => {
                    desk.forget_text(&kept);
                    self.tried.push("password".into());
                    if again || !self.may(russh::MethodKind::Password) {
                        return Ok(Offer::Refused);
                    }
                    again = true;
                }
            }
        }
    }

    /// Notes that a person would be needed.
    fn unasked(&mut self, what: &str) -> Offer {
        self.unasked.get_or_insert_with(|| what.to_owned());
        Offer::Refused
    }

    pub(super) fn wanted(&self, what: &str) -> String {
        format!("{what} for {}", self.target.address())
    }

    fn reply(&self, reply: Result<Reply, russh::Error>) -> Result<Reply, BackendError> {
        match reply {
            Ok(reply) => Ok(reply),
            Err(e) => {
                self.alive()?;
                Err(self.broken(&e.to_string()))
            }
        }
    }

    fn no_end(&self) -> BackendError {
        self.broken("it asks more than anybody can answer")
    }
}

/// Whether it asks for something that holds longer than once.
fn is_password(field: &Field) -> bool {
    let label = field.label.to_lowercase();
    !field.echo && label.contains("password") && !label.contains("one-time") && !label.contains("one time") && !label.contains("otp")
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_never_kept() {
        for (label, echo, expected) in [
            ("Password: ", false, true),
            ("(ada@gpu) Password:", false, true),
            ("Password: ", true, false),
            ("One-time password (OATH) for `ada': ", false, false),
            ("Verification code: ", false, false),
            ("OTP password: ", false, false),
        ] {
            assert_eq!(is_password(&Field { label: label.into(), echo }), expected, "{label}");
        }
    }
}
