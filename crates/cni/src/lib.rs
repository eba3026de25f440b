//! Pod addresses on secondary networks, given out by the node itself.
//!
//! A node holds slices of a network's ranges. The CNI plugin gives pods addresses of them and writes down who has what in the node's own
//! journal; that one durable write is all that an ADD waits for. Neither the API server nor the node agent has to be there. Networks
//! without slices need the API server.
//!
//! - [`environment`], [`config`]: what the runtime says;
//! - [`place`], [`lock`]: where the files of a network are, and who may touch them;
//! - [`grants`]: the slices that the node holds;
//! - [`journal`]: who has which address;
//! - [`allocate`]: who gets which, a function of all of these; [`shortage`]: that somebody got none;
//! - [`node`]: what only the machine knows: its boot, and which namespaces are there;
//! - [`answer`], [`failure`], [`version`]: what the runtime is told, in each version of the protocol;
//! - [`pool`]: networks without slices, whose addresses all nodes share; [`api`]: the API server, for them alone;
//! - [`plugin`]: one call, from beginning to end.
//!
//! Nothing here is asynchronous, and but for these two nothing knows Kubernetes: the plugin is started for every pod and must be done
//! within a millisecond.

pub mod allocate;
pub mod answer;
pub mod api;
pub mod config;
pub mod environment;
pub mod failure;
pub mod grants;
pub mod journal;
pub mod ledger;
pub mod lock;
pub mod node;
pub mod place;
pub mod plugin;
pub mod pool;
pub mod shortage;
pub mod version;
