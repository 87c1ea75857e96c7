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
  int64_t connect_ms = 5'000;  ///< until the connection is established
  int64_t idle_ms = 10'000;    ///< without a byte
  int64_t total_ms = 600'000;
};

/// Downloads a file and calls `take` with its bytes, piece by piece, until `take` returns false.
/// Follows up to five redirects, but none from HTTPS to HTTP. Environment if the server does not
/// answer with the whole file within the limits. The caller has to add the address and a remedy to
/// the message.
Status download(const std::string& address, const DownloadLimits& limits,
                const std::function<bool(std::string_view piece)>& take);

}  // namespace tw::tools::web
