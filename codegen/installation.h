// SPDX-License-Identifier: Apache-2.0
#pragma once
// Folders that the build knows. They stand in one small source, so that all others compile to the
// same in every checkout and a compiler cache serves them. Constants; thread-safe.

#include <string>

namespace tw::codegen {

/// The folder in which the build puts libtw_halide.so.
std::string plugin_build_directory();
/// The folder of the installed plugin, relative to the prefix: "lib/tilewright".
std::string plugin_install_directory();
/// The folder of the sources, whose .venv may hold compilers.
std::string checkout_directory();

}  // namespace tw::codegen
