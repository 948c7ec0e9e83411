#include "kernel/config/tree.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/io/written.hpp"

namespace tessera {
namespace {

class TreeNode : public ConfigNode {
 public:
  TreeNode(std::shared_ptr<const ConfigTree> tree, std::string path)
      : tree_(std::move(tree)), path_(std::move(path)) {}

  std::string path() const override { return path_; }

  const Value* find(std::string_view key) const override {
    const Entry* entry = tree_->find(join_path(path_, key));
    return entry != nullptr && entry->is_set() && entry->value ? &*entry->value : nullptr;
  }

  const Value* absolute(std::string_view path) const override {
    const Entry* entry = tree_->find(path);
    return entry != nullptr && entry->value ? &*entry->value : nullptr;
  }

  std::vector<std::string> tables(std::string_view key) const override {
    const std::string table = join_path(path_, key);
    std::vector<std::string> names = tree_->children(table);
    std::erase_if(names, [&](const std::string& name) {
      const Entry* entry = tree_->find(join_path(table, name));
      return entry->value || !entry->is_set();
    });
    return names;
  }

  std::unique_ptr<ConfigNode> child(std::string_view key) const override {
    return make_node(tree_, join_path(path_, key));
  }

  std::string origin(std::string_view key) const override {
    const Entry* entry = tree_->find(join_path(path_, key));
    if (entry == nullptr) return "default";
    if (entry->from.empty()) return entry->at.text();
    // For a value that is taken from another key: that key's place says what to change.
    const Entry* source = entry;
    while (source != nullptr && !source->from.empty()) source = tree_->find(source->from);
    const std::string from = "from " + entry->from;
    return source == nullptr || source->at.kind == Origin::initial
               ? from
               : source->at.text() + ", " + from;
  }

 private:
  std::shared_ptr<const ConfigTree> tree_;
  std::string path_;
};

}  // namespace

std::string Origin::text() const {
  if (kind == initial) return "default";
  return kind == set ? name : fmt::format("{}:{}:{}", written_path(name), line, column);
}

std::string_view last_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view parent_of(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

const Entry* ConfigTree::find(std::string_view path) const {
  const auto found = entries_.find(path);
  return found == entries_.end() ? nullptr : &found->second;
}

Entry& ConfigTree::put(const std::string& path, Entry entry) {
  const std::string parent(parent_of(path));
  if (!parent.empty()) {
    const Entry* above = find(parent);
    if (above == nullptr || above->value) {
      Entry table;
      table.key = table.at = entry.key;
      put(parent, std::move(table));
    }
  }
  const auto found = entries_.find(path);
  if (found == entries_.end()) {
    entry.order = next_order_++;
    return entries_[path] = std::move(entry);
  }
  Entry& there = found->second;
  if (!there.value && !entry.value) return there;  // a table keeps its first position
  if (!there.value) erase_below(path);
  entry.order = there.order;
  return there = std::move(entry);
}

void ConfigTree::erase(const std::string& path) {
  erase_below(path);
  entries_.erase(path);
}

void ConfigTree::erase_below(const std::string& path) {
  const std::string prefix = path + '.';
  auto first = entries_.lower_bound(prefix);
  while (first != entries_.end() && first->first.starts_with(prefix)) first = entries_.erase(first);
}

std::vector<std::string> ConfigTree::children(std::string_view path) const {
  const std::string prefix = path.empty() ? "" : std::string(path) + '.';
  std::vector<std::pair<int, std::string>> found;
  for (auto at = entries_.lower_bound(prefix);
       at != entries_.end() && at->first.starts_with(prefix);
       ++at) {
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    if (rest.find('.') == std::string_view::npos) found.emplace_back(at->second.order, rest);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  names.reserve(found.size());
  for (auto& [order, name] : found) names.push_back(std::move(name));
  return names;
}

std::unique_ptr<ConfigNode> make_node(std::shared_ptr<const ConfigTree> tree, std::string path) {
  return std::make_unique<TreeNode>(std::move(tree), std::move(path));
}

}  // namespace tessera
