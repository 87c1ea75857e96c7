// SPDX-License-Identifier: Apache-2.0
#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "base/integer.h"
#include "base/text.h"

namespace tw {
namespace {

constexpr int unlimited = std::numeric_limits<int>::max();

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int cores_of(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return unlimited;
  return static_cast<int>(std::clamp<int64_t>(ceil_div(*quota, *period), 1, unlimited));
}

/// Returns the number of processors that a control group of version 2 may use. The group's file has
/// the text "quota period" or "max period". Returns `unlimited` for "max", or if there is no such
/// file.
int quota_of_v2(const std::string& group) {
  const auto fields = words(read_line(group + "/cpu.max"));
  return fields.size() == 2 ? cores_of(parse_int(fields[0]), parse_int(fields[1])) : unlimited;
}

/// Returns the number of processors that a control group of version 1 may use. Such a group has one
/// file for the quota and one for the period. A quota of -1 means no limit.
int quota_of_v1(const std::string& group) {
  return cores_of(parse_int(trim(read_line(group + "/cpu.cfs_quota_us"))),
                  parse_int(trim(read_line(group + "/cpu.cfs_period_us"))));
}

/// Returns the smallest quota of the group `path` and of all groups above it, including `root`. In
/// a container the path of a group may differ from the path at which the group is mounted. A group
/// whose files are not found counts as unlimited.
template <typename QuotaOf>
int least_quota(const std::string& root, std::string path, const QuotaOf& quota_of) {
  int least = quota_of(root);
  while (path.size() > 1) {
    least = std::min(least, quota_of(root + path));
    path.resize(path.rfind('/'));
  }
  return least;
}

int cores_of_quotas(const CoreSources& sources) {
  int least = std::min(quota_of_v2(sources.groups), quota_of_v1(sources.groups + "/cpu"));
  std::ifstream file(sources.membership);
  for (std::string line; std::getline(file, line);) {
    // The line is "0::/path" for version 2, or "4:cpu,cpuacct:/path" for version 1.
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string path = line.substr(second + 1);
    const auto controllers = split(line.substr(first + 1, second - first - 1), ',');
    if (first + 1 == second)
      least = std::min(least, least_quota(sources.groups, path, quota_of_v2));
    else if (std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end())
      least = std::min(least, least_quota(sources.groups + "/cpu", path, quota_of_v1));
  }
  return least;
}

}  // namespace

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

int usable_cores(const CoreSources& sources) {
  const int allowed = std::max(1, static_cast<int>(allowed_cores().size()));
  return std::min(allowed, cores_of_quotas(sources));
}

}  // namespace tw
