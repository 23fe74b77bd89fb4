//! What commands that ask an agent have in common: which agent, and how its answer is shown.

use std::io;
use std::path::{Path, PathBuf};

use api::{Client, ClientError};

use crate::ending::show;

/// Which agent is asked.
#[derive(Clone, clap::Args)]
pub struct AgentArgs {
    /// The agent's socket; /run/zovn/agent.sock if nothing is said.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Which agent is asked, and how its answer is shown.
#[derive(Clone, clap::Args)]
pub struct AnswerArgs {
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

impl AgentArgs {
    /// A client of the agent.
    pub fn client(&self) -> Result<Client, ClientError> {
        Client::new(self.socket.as_deref().unwrap_or(Path::new(api::DEFAULT_SOCKET)))
    }
}

impl AnswerArgs {
    /// A client of the agent.
    pub fn client(&self) -> Result<Client, ClientError> {
        self.agent.client()
    }

    /// Whether an agent is named.
    pub const fn names_agent(&self) -> bool {
        self.agent.socket.is_some()
    }

    /// Whether JSON is asked for.
    pub const fn json(&self) -> bool {
        self.json
    }

    /// Prints an answer as JSON, or as a table.
    pub fn show(
        &self,
        answer: &impl serde::Serialize,
        table: impl FnOnce() -> String,
    ) -> io::Result<()> {
        show(answer, self.json, table)
    }
}
