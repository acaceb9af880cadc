//! The actions and their default keys.
//!
//! Invariant: only what works is here; every default of the leader is one plain key that any terminal can send.

/// Where keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::tui) enum Context {
    /// After the leader.
    Leader,
    /// The input line of a pane.
    Input,
    /// The blocks of a pane.
    Nav,
    /// Scrolling in a pane.
    Scroll,
    /// The process view.
    Processes,
    /// The feed.
    Feed,
    /// Everything about one command.
    Details,
    /// Lists: backends, messages, help.
    List,
}

impl Context {
    /// All contexts, in the order of the documentation.
    pub(in crate::tui) const ALL: [Self; 8] =
        [Self::Leader, Self::Input, Self::Nav, Self::Scroll, Self::Processes, Self::Feed, Self::Details, Self::List];

    /// The heading of help.
    pub(in crate::tui) fn title(self) -> &'static str {
        match self {
            Self::Leader => "After the leader, anywhere",
            Self::Input => "INPUT: the input line",
            Self::Nav => "NAV: the commands of a pane",
            Self::Scroll => "SCROLL: back in a pane",
            Self::Processes => "Processes, and their log",
            Self::Feed => "The feed",
            Self::Details => "Everything about one command",
            Self::List => "Lists: backends, messages, help",
        }
    }

    pub(in crate::tui) fn place(self) -> &'static str {
        match self {
            Self::Leader => "after the leader",
            Self::Input => "in the input line",
            Self::Nav => "in NAV",
            Self::Scroll => "in SCROLL",
            Self::Processes => "in the process view",
            Self::Feed => "in the feed",
            Self::Details => "in the details of a command",
            Self::List => "in lists",
        }
    }
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::tui) enum Action {
    SendLeader,
    Slot,
    NextBackend,
    PreviousBackend,
    LastBackend,
    FocusLeft,
    FocusDown,
    FocusUp,
    FocusRight,
    Zoom,
    NextLayout,
    EvenLayout,
    ToNav,
    ToInput,
    ScrollMode,
    Search,
    SearchNext,
    SearchPrevious,
    CopyOutput,
    CopyCommand,
    Reconnect,
    Backends,
    Processes,
    Feed,
    Messages,
    NextAlert,
    Help,
    Detach,
    Quit,
    Suspend,
    OwnLog,
    PreviousCommand,
    NextCommand,
    Run,
    RunWithStdin,
    NewLine,
    HistoryPrevious,
    HistoryNext,
    HistorySearch,
    Complete,
    Interrupt,
    EndOfInput,
    Left,
    Right,
    LineStart,
    LineEnd,
    WordLeft,
    WordRight,
    DeleteBefore,
    DeleteAfter,
    DeleteWordBefore,
    DeleteWordAfter,
    DeleteToStart,
    DeleteToEnd,
    Yank,
    Redraw,
    Down,
    Up,
    Open,
    Stop,
    Kill,
    Stdin,
    Session,
    Top,
    Bottom,
    PageUp,
    PageDown,
    HalfUp,
    HalfDown,
    Filter,
    Back,
    OpenLog,
    Region,
    Follow,
    Wrap,
    Pause,
    Mark,
    MarkRange,
    MarkAll,
    EndedToo,
    Recheck,
    Adopt,
    Find,
    Restart,
    ToPane,
    ToSession,
    Details,
    ByWho,
    Failures,
}

/// One row of the table.
#[derive(Debug)]
pub(in crate::tui) struct Def {
    pub(in crate::tui) action: Action,
    /// The name in the config.
    pub(in crate::tui) name: &'static str,
    pub(in crate::tui) contexts: &'static [Context],
    pub(in crate::tui) keys: &'static [&'static str],
    pub(in crate::tui) label: &'static str,
    pub(in crate::tui) group: &'static str,
}

const fn def(
    action: Action,
    name: &'static str,
    contexts: &'static [Context],
    keys: &'static [&'static str],
    label: &'static str,
    group: &'static str,
) -> Def {
    Def { action, name, contexts, keys, label, group }
}

const L: &[Context] = &[Context::Leader];
const I: &[Context] = &[Context::Input];
const N: &[Context] = &[Context::Nav];
const NL: &[Context] = &[Context::Nav, Context::List];
const NP: &[Context] = &[Context::Nav, Context::Processes];
const MOVE: &[Context] = &[Context::Nav, Context::Scroll, Context::Processes, Context::Feed, Context::Details, Context::List];
const HALF: &[Context] = &[Context::Nav, Context::Scroll, Context::Processes, Context::Feed, Context::Details];
const HITS: &[Context] = &[Context::Nav, Context::Scroll, Context::Processes];
const NS: &[Context] = &[Context::Nav, Context::Scroll];
const S: &[Context] = &[Context::Scroll];
const ANYWHERE: &[Context] =
    &[Context::Input, Context::Nav, Context::Scroll, Context::Processes, Context::Feed, Context::Details, Context::List];
const P: &[Context] = &[Context::Processes];
const PD: &[Context] = &[Context::Processes, Context::Details];
const PF: &[Context] = &[Context::Processes, Context::Feed];
const PFD: &[Context] = &[Context::Processes, Context::Feed, Context::Details];
const NPFD: &[Context] = &[Context::Nav, Context::Processes, Context::Feed, Context::Details];
const PFL: &[Context] = &[Context::Processes, Context::Feed, Context::List];
const VIEWS: &[Context] = &[Context::Processes, Context::Feed, Context::Details, Context::List];
const F: &[Context] = &[Context::Feed];

/// The table.
pub(in crate::tui) const DEFS: &[Def] = &[
    def(Action::Slot, "backend", L, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "go to backend", "BACKENDS"),
    def(Action::NextBackend, "next-backend", L, &["n"], "next backend", "BACKENDS"),
    def(Action::PreviousBackend, "previous-backend", L, &["p"], "previous backend", "BACKENDS"),
    def(Action::LastBackend, "last-backend", L, &["tab"], "last backend", "BACKENDS"),
    def(Action::Reconnect, "reconnect", L, &["r"], "reconnect now", "BACKENDS"),
    def(Action::FocusLeft, "focus-left", L, &["h", "left"], "pane to the left", "PANES"),
    def(Action::FocusDown, "focus-down", L, &["j", "down"], "pane below", "PANES"),
    def(Action::FocusUp, "focus-up", L, &["k", "up"], "pane above", "PANES"),
    def(Action::FocusRight, "focus-right", L, &["l", "right"], "pane to the right", "PANES"),
    def(Action::Zoom, "zoom", L, &["z"], "zoom this pane", "PANES"),
    def(Action::NextLayout, "next-layout", L, &["space"], "next layout", "PANES"),
    def(Action::EvenLayout, "even-layout", L, &["="], "layout by size", "PANES"),
    def(Action::ScrollMode, "scroll", L, &["["], "scroll back", "THIS PANE"),
    def(Action::Search, "search", L, &["/"], "search in the pane", "THIS PANE"),
    def(Action::PreviousCommand, "previous-command", L, &["{"], "previous command", "THIS PANE"),
    def(Action::NextCommand, "next-command", L, &["}"], "next command", "THIS PANE"),
    def(Action::CopyOutput, "copy-output", L, &["y"], "copy last output", "THIS PANE"),
    def(Action::ToNav, "nav", L, &["esc"], "NAV: choose a command", "THIS PANE"),
    def(Action::Backends, "backends", L, &["t"], "backends and health", "VIEWS"),
    def(Action::Processes, "processes", L, &["b"], "processes and logs", "VIEWS"),
    def(Action::Feed, "feed", L, &["e"], "feed of everything", "VIEWS"),
    def(Action::Messages, "messages", L, &["m"], "messages", "VIEWS"),
    def(Action::NextAlert, "next-alert", L, &["a"], "next that needs a person", "VIEWS"),
    def(Action::Help, "help", L, &["?"], "help", "VIEWS"),
    def(Action::OwnLog, "own-log", L, &["~"], "path of the own log", "VIEWS"),
    def(Action::Detach, "detach", L, &["d"], "detach", "SESSION"),
    def(Action::Quit, "quit", L, &["q"], "quit...", "SESSION"),
    def(Action::Suspend, "suspend", L, &["ctrl-z"], "suspend", "SESSION"),
    def(Action::SendLeader, "send-leader", L, &[], "send the leader to stdin", "SESSION"),
    def(Action::Run, "run", I, &["enter"], "run the line; a backslash at its end adds a line", "RUN"),
    def(Action::NewLine, "new-line", I, &["alt-enter"], "add a line", "RUN"),
    def(Action::RunWithStdin, "run-with-stdin", I, &["ctrl-o"], "run with stdin open and type into it", "RUN"),
    def(Action::Interrupt, "interrupt", I, &["ctrl-c"], "clear the line; when empty: stop your newest command", "RUN"),
    def(Action::EndOfInput, "end-of-input", I, &["ctrl-d"], "when empty: end a command's stdin", "RUN"),
    def(Action::Complete, "complete", I, &["tab"], "complete a path or command", "RUN"),
    def(Action::HistoryPrevious, "history-previous", I, &["up", "ctrl-p"], "earlier command", "RUN"),
    def(Action::HistoryNext, "history-next", I, &["down", "ctrl-n"], "later command", "RUN"),
    def(Action::HistorySearch, "history-search", I, &["ctrl-r"], "search the history", "RUN"),
    def(Action::ToNav, "leave-input", I, &["esc"], "NAV: choose a command", "RUN"),
    def(Action::Left, "left", I, &["left", "ctrl-b"], "character left", "EDIT"),
    def(Action::Right, "right", I, &["right", "ctrl-f"], "character right", "EDIT"),
    def(Action::WordLeft, "word-left", I, &["alt-b", "ctrl-left", "alt-left"], "word left", "EDIT"),
    def(Action::WordRight, "word-right", I, &["alt-f", "ctrl-right", "alt-right"], "word right", "EDIT"),
    def(Action::LineStart, "line-start", I, &["ctrl-a", "home"], "start of the line", "EDIT"),
    def(Action::LineEnd, "line-end", I, &["ctrl-e", "end"], "end of the line", "EDIT"),
    def(Action::DeleteBefore, "delete-before", I, &["backspace"], "delete before the cursor", "EDIT"),
    def(Action::DeleteAfter, "delete-after", I, &["delete"], "delete under the cursor", "EDIT"),
    def(Action::DeleteWordBefore, "delete-word", I, &["ctrl-w", "alt-backspace"], "delete the word before", "EDIT"),
    def(Action::DeleteWordAfter, "delete-word-after", I, &["alt-d"], "delete the word after", "EDIT"),
    def(Action::DeleteToStart, "delete-to-start", I, &["ctrl-u"], "delete to the start", "EDIT"),
    def(Action::DeleteToEnd, "delete-to-end", I, &["ctrl-k"], "delete to the end", "EDIT"),
    def(Action::Yank, "yank", I, &["ctrl-y"], "insert what was deleted", "EDIT"),
    def(Action::Redraw, "redraw", ANYWHERE, &["ctrl-l"], "draw the screen anew", "EDIT"),
    def(Action::PageUp, "input-page-up", I, &["pageup"], "a page back", "EDIT"),
    def(Action::PageDown, "input-page-down", I, &["pagedown"], "a page on", "EDIT"),
    def(Action::Down, "down", MOVE, &["j", "down"], "down", "MOVE"),
    def(Action::Up, "up", MOVE, &["k", "up"], "up", "MOVE"),
    def(Action::PageUp, "page-up", MOVE, &["pageup", "ctrl-b"], "a page back", "MOVE"),
    def(Action::PageDown, "page-down", MOVE, &["pagedown", "ctrl-f"], "a page on", "MOVE"),
    def(Action::HalfUp, "half-page-up", HALF, &["ctrl-u"], "half a page back", "MOVE"),
    def(Action::HalfDown, "half-page-down", HALF, &["ctrl-d"], "half a page on", "MOVE"),
    def(Action::Top, "top", MOVE, &["g", "home"], "first", "MOVE"),
    def(Action::Bottom, "bottom", MOVE, &["G", "end"], "last", "MOVE"),
    def(Action::Search, "find", NS, &["/"], "search", "MOVE"),
    def(Action::SearchNext, "find-next", HITS, &["n"], "next hit upwards", "MOVE"),
    def(Action::SearchPrevious, "find-previous", HITS, &["N"], "next hit downwards", "MOVE"),
    def(Action::Open, "open", NL, &["enter"], "open or fold; go to the row's pane", "ACT"),
    def(Action::OpenLog, "log", PD, &["enter", "l"], "its log at full size; a hit in its place", "LOOK"),
    def(Action::Region, "region", P, &["tab"], "between table and log", "LOOK"),
    def(Action::Follow, "follow", P, &["f"], "follow the log, or stay here", "LOOK"),
    def(Action::Wrap, "wrap", P, &["w"], "wrap long lines", "LOOK"),
    def(Action::Left, "log-left", P, &["left"], "long lines: to the left", "LOOK"),
    def(Action::Right, "log-right", P, &["right"], "long lines: to the right", "LOOK"),
    def(Action::Pause, "pause", PF, &["p"], "pause: nothing new is shown", "LOOK"),
    def(Action::Filter, "filter", PFL, &["/"], "show only rows or lines with a text", "LOOK"),
    def(Action::Slot, "only-backend", P, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "only this backend; again: all", "LOOK"),
    def(Action::EndedToo, "ended-too", P, &["e"], "with ended ones: background, all, none", "LOOK"),
    def(Action::ByWho, "by-who", F, &["@"], "only what this one started; again: all", "LOOK"),
    def(Action::Failures, "failures", F, &["!"], "failures only", "LOOK"),
    def(Action::Details, "event", F, &["enter"], "everything about this command", "LOOK"),
    def(Action::Details, "details", P, &["d"], "everything about this process", "LOOK"),
    def(Action::Mark, "mark", P, &["space"], "mark: several give one log, and keys act on all", "MARK"),
    def(Action::MarkRange, "mark-range", P, &["v"], "mark from here to there", "MARK"),
    def(Action::MarkAll, "mark-all", P, &["A"], "mark all shown, or none", "MARK"),
    def(Action::Stop, "stop", NPFD, &["x"], "stop the command", "ACT"),
    def(Action::Kill, "kill", NPFD, &["X"], "kill the command at once", "ACT"),
    def(Action::Restart, "restart", P, &["R"], "run the same command again", "ACT"),
    def(Action::Adopt, "adopt", P, &["a"], "make a background process of a stray", "ACT"),
    def(Action::Find, "find-strays", P, &["F"], "look for strays on its machine", "ACT"),
    def(Action::Recheck, "recheck", P, &["u"], "ask its machine now", "ACT"),
    def(Action::CopyOutput, "copy", NPFD, &["y"], "copy the output", "ACT"),
    def(Action::CopyCommand, "copy-command", NPFD, &["Y"], "copy the command", "ACT"),
    def(Action::Stdin, "stdin", NP, &["i"], "type into the command's stdin", "ACT"),
    def(Action::Session, "session", N, &["s"], "change the pane's session", "ACT"),
    def(Action::ToSession, "to-session", P, &["s"], "go to the pane, in its session", "ACT"),
    def(Action::ToPane, "to-pane", PFD, &["o"], "go to the pane of its backend", "ACT"),
    def(Action::Reconnect, "retry", NL, &["r"], "reconnect the backend now", "ACT"),
    def(Action::Zoom, "zoom-here", NP, &["z"], "zoom this pane or part", "ACT"),
    def(Action::Slot, "jump", N, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "go to backend", "ACT"),
    def(Action::Help, "help-here", MOVE, &["?"], "help", "ACT"),
    def(Action::ToInput, "input", N, &["esc"], "back to INPUT", "LEAVE"),
    def(Action::Back, "leave-scroll", S, &["esc", "q"], "back to the present", "LEAVE"),
    def(Action::Back, "back", VIEWS, &["esc", "q"], "one step back; to the panes", "LEAVE"),
];
