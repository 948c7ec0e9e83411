#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/build.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// The ranks of a stage that together hold the experts of one layer (the "etp-ep" group), and which
/// experts each of them holds.
class ExpertRanks {
 public:
  ExpertRanks(const BuildContext& build, i64 experts);

  int size() const { return static_cast<int>(members_.size()); }
  int index() const { return index_; }      ///< of this rank
  i64 experts() const { return experts_; }  ///< of the layer
  i64 local() const { return local_; }      ///< experts of a rank
  i64 parts() const { return parts_; }      ///< ranks that share each expert's matrices
  /// The first expert of a member, and which part of its matrices that member has.
  i64 first(int member) const { return at(member).first; }
  i64 part(int member) const { return at(member).part; }
  i64 first() const { return first(index_); }
  /// Throws Error where the mesh has no communicators.
  ProcessGroup& group() const;
  const std::string& name() const { return name_; }  ///< the call site of collectives

  /// How many choices each expert gets where `choices` are spread evenly: what a dry run assumes.
  /// `imbalance`: this rank's experts get that much more than their share.
  std::vector<i64> balanced(i64 choices, double imbalance) const;

 private:
  struct Member {
    i64 first, part;
  };
  const Member& at(int member) const { return members_[static_cast<std::size_t>(member)]; }

  std::string name_;
  ProcessGroup* group_;  // nullptr: the mesh has no communicators
  i64 experts_, local_, parts_;
  int index_ = 0;
  std::vector<Member> members_;
};

}  // namespace tessera
