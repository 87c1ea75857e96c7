// SPDX-License-Identifier: Apache-2.0
#pragma once
// The layer of a team (--team) as a database that can be opened. A published layer
// (db/published_layer.h) is fetched, by HTTP or from a folder, and its copy is what is opened.
// Thread-safe.

#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"

namespace tw::tools {

struct TeamLayer {
  std::string name;    ///< a file, the address of a server, or that of a published layer
  std::string key;     ///< of a published layer: its public key, or a file that holds it
  std::string copies;  ///< folder of the copies of published layers
};

/// The layer to open. Of a published one that has no copy and cannot be fetched, it has an empty
/// path, and the reason goes to the waiting's on_message. Usage where a published layer has no key,
/// or what was named is none.
Result<db::Layer> team_layer(const TeamLayer& team, const db::Waiting& waiting);

/// The layers below a database: the team's, if one is named, and the shipped one, unless its name
/// is empty or "none". Errors as team_layer(). A team's layer without a copy is left out.
Result<std::vector<db::Layer>> layers_below(const TeamLayer& team, const std::string& shipped,
                                            const db::Waiting& waiting);

}  // namespace tw::tools
