// SPDX-License-Identifier: Apache-2.0
#pragma once
// Folders that the build configures. They are compiled into one small source file only. So all
// other sources compile to the same objects in every checkout, and a compiler cache can reuse the
// objects. Constants; thread-safe.

#include <string>

namespace tw::codegen {

/// Returns the folder in which the build puts libtw_halide.so.
std::string plugin_build_directory();
/// Returns the folder of the installed plugin, relative to the prefix of the installation:
/// "lib/tilewright".
std::string plugin_install_directory();
/// Returns the root folder of the checkout. The Python environment in its folder .venv may contain
/// compilers.
std::string checkout_directory();

}  // namespace tw::codegen
