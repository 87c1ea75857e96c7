// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the database to open for the layer of a team (--team). A published layer
// (db/published_layer.h) is fetched by HTTP or from a folder, and the fetched copy is opened.
// Thread-safe.

#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"

namespace tw::tools {

struct TeamLayer {
  std::string name;    ///< a database file, the address of a database server, or a published layer
  std::string key;     ///< public key of a published layer, or a file that has this key
  std::string copies;  ///< folder that has the copies of published layers
};

/// Returns the layer to open. If a published layer cannot be fetched and no earlier copy exists,
/// the path of the result is empty and `waiting.on_message` gets the reason. A copy that was
/// fetched by HTTP is used for ten minutes before the server is asked again. Fails with Usage if a
/// published layer is named without a public key, or with a text that is no public key.
Result<db::Layer> team_layer(const TeamLayer& team, const db::Waiting& waiting);

/// Returns the layers below a database, the nearest first: the team's layer if `team` names one,
/// and the layer `shipped` unless `shipped` is empty or "none". A published layer that cannot be
/// fetched and has no copy is left out. Fails with the errors of team_layer().
Result<std::vector<db::Layer>> layers_below(const TeamLayer& team, const std::string& shipped,
                                            const db::Waiting& waiting);

}  // namespace tw::tools
