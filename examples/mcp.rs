//! Chats with the tools of MCP servers.
//!
//! `cargo run --features mcp --example mcp -- mcp.json` reads the servers from a file in the usual form
//! (`{"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]}}}`),
//! lists their tools, and lets the built-in model use them: type `help`. A line is a prompt; an empty one ends.

use std::{
    env,
    error::Error,
    io::{self, BufRead as _, Write as _},
    sync::Arc,
};

use steerage::{
    AbortSignal, Agent, AgentOptions, Builtin, Hooks, ToolDecision,
    agent_loop::BeforeToolCall,
    mcp::{Config, Servers, ServersOptions},
};

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = env::args().nth(1) else {
        return Err("which configuration? give the path of a file with `mcpServers`".into());
    };
    let signal = AbortSignal::never();
    let servers = Servers::connect(Config::from_file(path)?, ServersOptions::default(), &signal)?;
    for report in servers.reports() {
        println!("{}: {:?}, {} tools. {}", report.name, report.state, report.tools, report.summary);
        for fault in report.faults {
            println!("  {fault}");
        }
    }
    for tool in servers.tools() {
        println!("  {}: {}", tool.name(), tool.description().lines().next().unwrap_or_default());
    }

    let options = AgentOptions {
        stream: Some(Builtin::default().into()),
        tools: servers.tools(),
        hooks: Hooks { before_tool_call: Some(approve(&servers)), ..Hooks::default() },
        ..AgentOptions::default()
    };
    let agent = Agent::new(Builtin::model(), options)?;
    let _following = servers.follow(&agent);
    let _subscription = agent.subscribe(|event, _signal| {
        if let Some(text) = event.text_delta() {
            print!("{text}");
            io::stdout().flush()?;
        }
        Ok(())
    });
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        agent.prompt(line)?.wait()?;
        println!();
    }
    // Dropping them would do, but a program that ends right away would not see them end.
    servers.close();
    Ok(())
}

/// Says which calls may change something. A real program would ask the user here.
fn approve(servers: &Servers) -> steerage::agent_loop::BeforeToolCallHook {
    let servers = servers.clone();
    Arc::new(move |call: &BeforeToolCall<'_>, _: &AbortSignal| {
        let tools = servers.tools();
        let tool = tools.iter().find(|tool| tool.name() == call.call.name);
        if tool.is_some_and(|tool| tool.said_hints().read_only != Some(true)) {
            println!("[{} may change something]", call.call.name);
        }
        Ok(ToolDecision::Allow)
    })
}
