package simulate_test
import ("testing";"fmt";"sendcode/internal/simulate")
func TestDbg(t *testing.T) { p := simulate.Shrink(t, simulate.NewPlan(*from,0), "told wait", simulate.Options{}); r := simulate.Run(t, p, simulate.Options{Trace:true}); fmt.Println(r.Story()); for _, l := range r.Trace { fmt.Println(l) } }
