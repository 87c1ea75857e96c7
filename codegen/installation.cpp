// SPDX-License-Identifier: Apache-2.0
#include "codegen/installation.h"

namespace tw::codegen {

std::string plugin_build_directory() { return TW_PLUGIN_BUILD_DIRECTORY; }
std::string plugin_install_directory() { return TW_PLUGIN_INSTALL_DIRECTORY; }
std::string checkout_directory() { return TW_CHECKOUT; }

}  // namespace tw::codegen
