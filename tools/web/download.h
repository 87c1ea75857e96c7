// SPDX-License-Identifier: Apache-2.0
#pragma once
// Downloads a file by HTTP or HTTPS. Certificates of servers are checked against the certificates
// that the system trusts, or against those in the file that the environment variable SSL_CERT_FILE
// names (OpenSSL). Thread-safe.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::tools::web {

struct DownloadLimits {
  int64_t connect_ms = 5'000;  ///< longest time until the connection is established
  int64_t idle_ms = 10'000;    ///< longest time without a byte
  int64_t total_ms = 600'000;
};

/// Downloads a file and calls `take` with its bytes, piece by piece, until `take` returns false.
/// Follows up to five redirects, but none from HTTPS to HTTP. Fails with Environment if the file
/// was not received completely within the limits, also if `take` returned false. The message has
/// neither the address nor a remedy; the caller adds them.
Status download(const std::string& address, const DownloadLimits& limits,
                const std::function<bool(std::string_view piece)>& take);

}  // namespace tw::tools::web
