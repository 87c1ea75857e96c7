// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the layer of a team (--team) into a database that can be opened. A published layer
// (db/published_layer.h) is fetched by HTTP or from a folder, and the fetched copy is opened.
// Thread-safe.

#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"

namespace tw::tools {

struct TeamLayer {
  std::string name;    ///< a file, the address of a server, or that of a published layer
  std::string key;     ///< public key of a published layer, or a file that has this key
  std::string copies;  ///< folder that has the copies of published layers
};

/// The layer to open. Its path is empty if the layer is published, cannot be fetched and has no
/// earlier copy; the reason then goes to `waiting.on_message`. Usage if a published layer is named
/// without a public key, or with a text that is no public key.
Result<db::Layer> team_layer(const TeamLayer& team, const db::Waiting& waiting);

/// The layers below a database: the team's layer, if `team` names one, and the layer `shipped`,
/// unless that is empty or "none". A published layer that cannot be fetched and has no copy is left
/// out. Errors as team_layer().
Result<std::vector<db::Layer>> layers_below(const TeamLayer& team, const std::string& shipped,
                                            const db::Waiting& waiting);

}  // namespace tw::tools
