#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// Finds, in the launches of a dry run, parameters to which no backward pass gives a gradient:
/// those of a layer that forgot to record an operation of its own, or that declares what it does
/// not use. They would learn nothing, and no number of the run would say so.
class Unreached {
 public:
  /// Watches launches from now on, for parameters of one rank that have their memory.
  void begin(const std::vector<Parameter*>& parameters);
  /// Says whether a backward pass runs: other launches sum gradients over ranks, and zero them.
  void backward(bool now) { backward_ = now; }
  void launched(const Kernel& kernel, const void* args);
  /// Call at the end of that rank's step.
  void end(const ModelParts& parts);
  /// A warning for each component that declared some.
  void warn() const;

 private:
  struct Gradient {
    const char* end;
    const Parameter* parameter;
  };
  std::map<const char*, Gradient> waiting_;  // by begin: those without a gradient yet
  std::size_t all_ = 0;
  bool backward_ = false;
  // Names, by component.
  std::vector<std::pair<std::string, std::vector<std::string>>> found_;
};

}  // namespace tessera
