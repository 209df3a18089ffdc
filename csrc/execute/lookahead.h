// How far a batch is planned at once, where transactions compute keys.
//
// What was foreseen holds as long as the rows that the keys depend on stay as they are. A transaction is *doubtful* if
// an earlier one of the batch may write such a row. There are three ways to go on:
//
//   trust    plan it as foreseen; if it names another row, repair (execute/repair.h)
//   cut      end the piece that is planned here before it, and look again when that has run: then it is not doubtful
//   roam     nobody looks; it runs alone (plan/graph.h)
//
// Which one pays depends on how often doubt is right, and on how far apart doubtful transactions are. Both are
// measured, also while cutting: what was foreseen before the cut is compared with what is seen behind it. Results never
// depend on it.
//
// A pure state machine: no clock, no threads.
#pragma once

#include <cstdint>

namespace morphspark {

class Lookahead {
 public:
  enum class Way { kTrust, kCut, kRoam };

  Way Next() {
    if (roaming_ > 0) {
      --roaming_;
      return Way::kRoam;
    }
    return wrong_ <= kWrongMax ? Way::kTrust : Way::kCut;
  }

  // So many doubtful transactions were looked at again, and so many of them name other rows than was thought.
  void Learn(int64_t doubtful, int64_t wrong) {
    for (; doubtful > 0; --doubtful, --wrong) wrong_ += ((wrong > 0 ? 1.0 : 0.0) - wrong_) / kMemory;
  }
  // A piece of so many transactions was cut off.
  void Cut(int64_t transactions) {
    length_ += (static_cast<double>(transactions) - length_) / kPieces;
    if (length_ < kLengthMin) Roam();
  }
  // Of those that compute keys so many were not foreseen, though there was no doubt: they write what they read.
  void Ran(int64_t computing, int64_t wrong) {
    if (4 * wrong > computing) Roam();
  }
  // How many transactions to look at for a piece that is cut.
  int64_t Reach() const { return static_cast<int64_t>(2 * length_); }

 private:
  void Roam() {
    roaming_ = kRoaming;
    length_ = kLengthFirst;
  }

  static constexpr double kWrongMax = 0.1;      // a repair takes back what others have made of it, too
  static constexpr double kMemory = 32;         // doubtful transactions
  static constexpr double kPieces = 8;          // that the length is averaged over
  static constexpr double kLengthMin = 48;      // less is not worth planning
  static constexpr double kLengthFirst = 1024;  // before any was measured
  static constexpr int kRoaming = 16;           // batches

  double wrong_ = 0;              // share of doubtful transactions
  double length_ = kLengthFirst;  // of a piece, where it is cut
  int roaming_ = 0;               // for how many batches more
};

}  // namespace morphspark
