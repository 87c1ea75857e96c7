// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to compare: tables of workloads in a folder, and expressions in files. Free functions;
// thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/suites.h"

namespace tw::bench {

using Item = tools::SuiteItem;

/// "resnet50_conv" is the file resnet50_conv.tsv of the folder. Usage, with the names that there
/// are, for another name.
Result<std::vector<Item>> load_suite(const std::string& folder, const std::string& name);

/// The compute in a .tw file, named after the file.
Result<Item> load_expression(const std::string& path);

/// The same with so many images a convolution, in this type; a batch other than 1 is part of the
/// name, "r04_n32". Usage for a batch of anything but convolutions.
Result<std::vector<Item>> variants(const std::vector<Item>& items, int64_t batch, DType dtype);

/// Those in `names` (comma-separated), in the suite's order; all for an empty text. Usage for a
/// name that the suite lacks.
Result<std::vector<Item>> select(std::vector<Item> items, std::string_view names);

}  // namespace tw::bench
