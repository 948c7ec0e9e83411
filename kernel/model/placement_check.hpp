#pragma once
#include <map>
#include <string>
#include <vector>

#include "tessera/mesh.hpp"
#include "tessera/operation.hpp"
#include "tessera/parameter.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// Follows through a dry run which values differ between the ranks of the tensor group: parameters
/// that it cuts, rows of a reduce-scatter, and whatever a launch computes from such. Finds
/// parameters that get a gradient from them while their placement says that every rank computes the
/// same: a norm that is not per_row() under sequence parallelism, or the input of a tensor region
/// that did not `enter` it. Sees launches and collectives by their addresses, so it knows a
/// plugin's own operations, too. What it cannot follow (integers, values of other pipeline stages)
/// counts as equal: it reports no right layer, but not every wrong one.
class PlacementCheck {
 public:
  /// Follows values from now on, of parameters that have their memory. No effect in a group of one.
  void begin(const Mesh& mesh, const std::vector<Parameter*>& parameters);
  void launched(const Kernel& kernel, const void* args);
  void started(const GroupSpec& group, const Collective& collective);
  struct Problem {
    const Parameter* parameter;
    std::string text;
  };
  /// One for each parameter, in the order in which they were found.
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  struct Bytes {
    const char *begin, *end;
  };
  using Ranges = std::map<const char*, const char*>;  // disjoint: begin to end
  static Bytes bytes_of(const TensorArg& tensor);
  static std::vector<Bytes> runs_of(const TensorArg& tensor);
  bool differs(Bytes bytes) const;
  bool differs(const TensorArg& tensor) const;
  Ranges::iterator first_beyond(const char* address);  // that ends after it
  void set(const TensorArg& tensor, bool differs);
  void set(Bytes bytes, bool differs);
  void copied(const Kernel& kernel, const TensorArg& from, const TensorArg& to);
  void check_gradient(const Kernel& kernel, Bytes output);

  const Mesh* mesh_ = nullptr;  // nullptr: nothing to follow
  Ranges differ_;
  struct Watched {
    const char* end;
    const Parameter* parameter;
  };
  std::map<const char*, Watched> equal_gradients_;  // by begin: those that must be equal
  std::vector<Problem> problems_;
};

}  // namespace tessera
