// SPDX-License-Identifier: Apache-2.0
#pragma once
// Folders that the build configures. Only one small source contains them. All other sources compile
// to the same objects in every checkout, so a compiler cache serves them. Constants; thread-safe.

#include <string>

namespace tw::codegen {

/// The folder in which the build puts libtw_halide.so.
std::string plugin_build_directory();
/// The folder of the installed plugin, relative to the prefix: "lib/tilewright".
std::string plugin_install_directory();
/// The folder of the sources, whose .venv may hold compilers.
std::string checkout_directory();

}  // namespace tw::codegen
