// SPDX-License-Identifier: Apache-2.0
// Replaces download.cpp if the program is compiled without the HTTP library.

#include "tools/web/download.h"

namespace tw::tools::web {

Status download(const std::string&, const DownloadLimits&,
                const std::function<bool(std::string_view)>&) {
  return fail(ErrorCode::Environment,
              "this program was built without a web client: install Debian's libcpp-httplib-dev, "
              "and build it again");
}

}  // namespace tw::tools::web
