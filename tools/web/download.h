// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gets a file by HTTP or HTTPS. Certificates are checked against those that the system trusts
// (OpenSSL's SSL_CERT_FILE names others). Thread-safe.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::tools::web {

struct DownloadLimits {
  int64_t connect_ms = 5'000;  ///< until the connection stands
  int64_t idle_ms = 10'000;    ///< without a byte
  int64_t total_ms = 600'000;
};

/// Gives the bytes to `take`, piece by piece, until that says false. Follows up to five redirects,
/// none of them from HTTPS to HTTP. Environment where the server
/// does not answer with the whole file within the limits; the message names neither the address nor
/// what to do.
Status download(const std::string& address, const DownloadLimits& limits,
                const std::function<bool(std::string_view piece)>& take);

}  // namespace tw::tools::web
