// SPDX-License-Identifier: Apache-2.0
#pragma once
// The workloads of benchmarks: tables in a folder, and expressions in files. Free functions;
// thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/suites.h"

namespace tw::bench {

using Item = tools::SuiteItem;

/// Loads a suite: "resnet50_conv" is the file resnet50_conv.tsv of the folder. Usage, listing the
/// names, for an unknown name.
Result<std::vector<Item>> load_suite(const std::string& folder, const std::string& name);

/// Loads the compute in a .tw file. The item has the name of the file.
Result<Item> load_expression(const std::string& path);

/// The items with another batch size and data type. A batch other than 1 becomes part of the name,
/// as in "r04_n32". Usage if such a batch is asked for and an item is no convolution.
Result<std::vector<Item>> variants(const std::vector<Item>& items, int64_t batch, DType dtype);

/// The items in `names` (comma-separated), in the suite's order; all items for an empty text. Usage
/// for a name that the suite lacks.
Result<std::vector<Item>> select(std::vector<Item> items, std::string_view names);

}  // namespace tw::bench
