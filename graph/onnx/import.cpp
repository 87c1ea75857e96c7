// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/import.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <onnx-ml.pb.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "graph/onnx/importer.h"
#include "graph/onnx/names.h"

namespace tw::graph {
namespace onnx {
namespace {

using ::onnx::ModelProto;

constexpr int most_nested_messages = 100;

Result<std::unique_ptr<ModelProto>> parse(std::string_view bytes) {
  if (bytes.size() > size_t{INT_MAX})
    return invalid_model(
        "the model is larger than 2 GB, which protobuf does not read: store its "
        "weights as external data");
  auto model = std::make_unique<ModelProto>();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(most_nested_messages);
  if (!model->MergePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return invalid_model(
        fmt::format("the model cannot be read: it is cut off, damaged, no ONNX, or nests messages "
                    "more than {} deep",
                    most_nested_messages));
  return model;
}

Result<std::string> read_file(const std::string& path) {
  std::error_code error;
  const auto unreadable = [&](const std::string& why) {
    return fail(ErrorCode::Environment, fmt::format("[onnx] {}: {}", path, why));
  };
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) return unreadable(error.message());
  if (std::filesystem::is_directory(status))
    return unreadable("it is a folder, expected an ONNX file");
  if (!std::filesystem::is_regular_file(status))
    return unreadable("it is no regular file, expected an ONNX file");
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::filesystem::file_size(path, error), '\0');
  if (error || !file.read(bytes.data(), std::ssize(bytes))) return unreadable("it cannot be read");
  if (bytes.empty()) return invalid_model(fmt::format("{} is empty, expected an ONNX file", path));
  return bytes;
}

/// The model's folder, and that of the file to which symbolic links lead.
DataFolders folders_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return {folder.empty() ? "." : folder.string(), error ? "" : real.parent_path().string()};
}

}  // namespace
}  // namespace onnx

Result<OnnxModel> read_onnx(const std::string& path, const OnnxOptions& options) {
  std::unique_ptr<::onnx::ModelProto> model;
  {
    TW_TRY(const std::string bytes, onnx::read_file(path));
    auto parsed = onnx::parse(bytes);
    if (!parsed)
      return fail(parsed.error().code,
                  fmt::format("[onnx] {}: {}", path, onnx::without_prefix(parsed.error().message)));
    model = std::move(*parsed);
  }
  return onnx::Importer(*model, onnx::folders_of(path), options).run();
}

Result<OnnxModel> parse_onnx(std::string_view bytes, const std::string& folder,
                             const OnnxOptions& options) {
  TW_TRY(const std::unique_ptr<::onnx::ModelProto> model, onnx::parse(bytes));
  return onnx::Importer(*model, {folder}, options).run();
}

}  // namespace tw::graph
