// Asks a planner what Kubernetes' scheduler asks an extender, with the scheduler's own types.
//
//	go run . URL HTTPS_URL CA CERTIFICATE KEY
//
// The plan is the one of desk.rs: n1 is full, as its agent says, n2 has some, n3 is small, n4 is
// empty.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extender "k8s.io/kube-scheduler/extender/v1"
)

func main() {
	log.SetFlags(log.Lshortfile)
	if len(os.Args) != 6 {
		log.Fatal("usage: go run . URL HTTPS_URL CA CERTIFICATE KEY")
	}
	plain := planner{http.DefaultClient, os.Args[1]}
	namesAreFiltered(plain)
	nodesAreFilteredAndComeBackWhole(plain)
	namesAreScored(plain)
	quantitiesAreReadAsTheyAreWritten(plain)
	questionsWithoutAPodAreRefused(plain)
	certificatesAreShown(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	fmt.Println("extender: passed")
}

// With `nodeCacheCapable: true`.
func namesAreFiltered(at planner) {
	var result extender.ExtenderFilterResult
	at.ask("filter", named(pod("a", "web"), "n1", "n2", "n4", "n9"), &result)
	same(passing(&result, true), []string{"n2", "n4"})
	same(result.Nodes == nil, true)
	whyNot(&result, "n1", "P(overflow)")
	whyNot(&result, "n9", "the plan has no such host")
	same(len(result.FailedNodes), 1)
	same(len(result.FailedAndUnresolvableNodes), 1)
}

// With `nodeCacheCapable: false`.
func nodesAreFilteredAndComeBackWhole(at planner) {
	list := &core.NodeList{Items: []core.Node{node("n1"), node("n2"), node("n4")}}
	var result extender.ExtenderFilterResult
	at.ask("filter", &extender.ExtenderArgs{Pod: pod("b", "web"), Nodes: list}, &result)
	same(passing(&result, false), []string{"n2", "n4"})
	same(result.NodeNames == nil, true)
	whyNot(&result, "n1", "P(overflow)")
	same(encoded(result.Nodes.Items), encoded(list.Items[1:]))
}

func namesAreScored(at planner) {
	var result extender.HostPriorityList
	at.ask("prioritize", named(pod("c", "loud"), "n1", "n4"), &result)
	same(len(result), 2)
	for place, name := range []string{"n1", "n4"} {
		score := result[place].Score
		same(result[place].Host, name)
		if score < extender.MinExtenderPriority || score > extender.MaxExtenderPriority {
			log.Fatalf("%s: %d is no score", name, score)
		}
	}
	same(result[1].Score > result[0].Score, true)
	// The scheduler takes n4, and the next one finds no room there.
	var next extender.ExtenderFilterResult
	at.ask("filter", named(pod("d", "loud"), "n4"), &next)
	same(passing(&next, true), []string{})
	whyNot(&next, "n4", "P(overflow)")
}

// n3 has 2 cores and 4 GiB left.
func quantitiesAreReadAsTheyAreWritten(at planner) {
	for _, it := range []struct{ cpu, memory, why string }{
		{"2", "4Gi", ""},
		{"2000m", "4294967296", ""},
		{"0.2e1", "4194304Ki", ""},
		{"1999999u", "4G", ""},
		{"2001m", "1Gi", "needs 2.001 cores"},
		{"2000000001n", "1Gi", "cores"},
		{"1", "4294967297", "of memory"},
		{"1", "4.5G", "of memory"},
		{"1", "4.1Gi", "of memory"},
		{"1", "5e9", "of memory"},
		{"1", "4294967296001m", "of memory"},
		{"1", "1Ei", "of memory"},
	} {
		asking := pod("e", "web")
		asking.Spec.Containers = []core.Container{container(it.cpu, it.memory)}
		takes(at, asking, it.why)
	}
	asking := pod("e", "web")
	asking.Spec.Containers = append(asking.Spec.Containers, container("1500m", "1Gi"))
	takes(at, asking, "")
	asking.Spec.Overhead = core.ResourceList{core.ResourceCPU: resource.MustParse("250m")}
	takes(at, asking, "needs 2.25 cores")
	asking = pod("e", "web")
	asking.Spec.InitContainers = []core.Container{container("3", "1Gi")}
	takes(at, asking, "needs 3 cores")
}

func questionsWithoutAPodAreRefused(at planner) {
	same(at.status("filter", &extender.ExtenderArgs{NodeNames: &[]string{"n4"}}), 400)
	same(at.status("prioritize", &extender.ExtenderArgs{Pod: pod("f", "web")}), 400)
}

// The scheduler's `tlsConfig` has these three files.
func certificatesAreShown(url, ca, certificate, key string) {
	pem, err := os.ReadFile(ca)
	must(err)
	roots := x509.NewCertPool()
	same(roots.AppendCertsFromPEM(pem), true)
	config := &tls.Config{RootCAs: roots}
	client := func() *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone()}}
	}
	asked := named(pod("g", "web"), "n1", "n4")
	same(planner{client(), url}.status("filter", asked), 403)
	own, err := tls.LoadX509KeyPair(certificate, key)
	must(err)
	config.Certificates = []tls.Certificate{own}
	var result extender.ExtenderFilterResult
	planner{client(), url}.ask("filter", asked, &result)
	same(passing(&result, true), []string{"n4"})
}

type planner struct {
	client *http.Client
	url    string
}

// Reads an answer that has no other fields than the scheduler's type.
func (at planner) ask(verb string, args *extender.ExtenderArgs, result any) {
	response := at.post(verb, args)
	defer response.Body.Close()
	same(response.StatusCode, http.StatusOK)
	decoder := json.NewDecoder(response.Body)
	decoder.DisallowUnknownFields()
	must(decoder.Decode(result))
}

func (at planner) status(verb string, args *extender.ExtenderArgs) int {
	response := at.post(verb, args)
	defer response.Body.Close()
	return response.StatusCode
}

func (at planner) post(verb string, args *extender.ExtenderArgs) *http.Response {
	body := strings.NewReader(encoded(args))
	response, err := at.client.Post(at.url+"/k8s/"+verb, "application/json", body)
	must(err)
	return response
}

// The nodes that pass, by the field from which the scheduler takes them (HTTPExtender.Filter).
func passing(result *extender.ExtenderFilterResult, nodeCacheCapable bool) []string {
	same(result.Error, "")
	names := []string{}
	if nodeCacheCapable && result.NodeNames != nil {
		names = append(names, *result.NodeNames...)
	} else if result.Nodes != nil {
		for _, it := range result.Nodes.Items {
			names = append(names, it.Name)
		}
	} else {
		log.Fatal("neither names nor nodes")
	}
	return names
}

// Preempting pods may help on n1 alone, whose agent says what runs there.
func whyNot(result *extender.ExtenderFilterResult, node, why string) {
	reason, other := result.FailedAndUnresolvableNodes[node], result.FailedNodes[node]
	if node == "n1" {
		reason, other = other, reason
	}
	same(other, "")
	if !strings.HasPrefix(reason, "zovn: ") || !strings.Contains(reason, why) {
		log.Fatalf("%s: %q does not say %q", node, reason, why)
	}
}

// Whether n3 takes a pod, or says this.
func takes(at planner, asking *core.Pod, why string) {
	var result extender.ExtenderFilterResult
	at.ask("filter", named(asking, "n3"), &result)
	if why == "" {
		same(passing(&result, true), []string{"n3"})
		same(len(result.FailedNodes)+len(result.FailedAndUnresolvableNodes), 0)
		return
	}
	same(passing(&result, true), []string{})
	whyNot(&result, "n3", why)
}

func named(asking *core.Pod, names ...string) *extender.ExtenderArgs {
	return &extender.ExtenderArgs{Pod: asking, NodeNames: &names}
}

// A pod as an API server has it, with much that is not looked at.
func pod(name, model string) *core.Pod {
	seconds := int64(300)
	return &core.Pod{
		TypeMeta: meta.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: meta.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID(name), CreationTimestamp: meta.Now(),
			Labels:          map[string]string{"app": "web"},
			Annotations:     map[string]string{"zovn/model": model, "other": `{"a": [1]}`},
			OwnerReferences: []meta.OwnerReference{{Kind: "ReplicaSet", Name: "web"}},
			ManagedFields: []meta.ManagedFieldsEntry{{
				Manager: "kubelet", FieldsV1: &meta.FieldsV1{Raw: []byte(`{"f:spec":{}}`)},
			}},
		},
		Spec: core.PodSpec{
			Containers: []core.Container{container("500m", "1Gi")},
			Volumes: []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{
				EmptyDir: &core.EmptyDirVolumeSource{},
			}}},
			Tolerations:   []core.Toleration{{Key: "k", TolerationSeconds: &seconds}},
			NodeSelector:  map[string]string{"zone": "a"},
			RestartPolicy: core.RestartPolicyAlways,
			SchedulerName: core.DefaultSchedulerName,
		},
		Status: core.PodStatus{Phase: core.PodPending, QOSClass: core.PodQOSBurstable},
	}
}

func container(cpu, memory string) core.Container {
	requests := core.ResourceList{
		core.ResourceCPU:    resource.MustParse(cpu),
		core.ResourceMemory: resource.MustParse(memory),
		"example.com/gpu":   resource.MustParse("1"),
	}
	limits := core.ResourceList{core.ResourceCPU: resource.MustParse("64")}
	return core.Container{
		Name: "c", Image: "web:1", Env: []core.EnvVar{{Name: "A", Value: "<&>"}},
		Resources: core.ResourceRequirements{Requests: requests, Limits: limits},
	}
}

func node(name string) core.Node {
	return core.Node{
		ObjectMeta: meta.ObjectMeta{
			Name: name, UID: types.UID(name), Labels: map[string]string{"zone": "<ä>"},
			CreationTimestamp: meta.NewTime(time.Unix(1700000000, 0)),
		},
		Spec: core.NodeSpec{
			PodCIDRs: []string{"10.1.0.0/24"},
			Taints:   []core.Taint{{Key: "k", Effect: core.TaintEffectNoSchedule}},
		},
		Status: core.NodeStatus{
			Allocatable: core.ResourceList{core.ResourceMemory: resource.MustParse("263921896Ki")},
			Conditions:  []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}},
			NodeInfo:    core.NodeSystemInfo{KubeletVersion: "v1.26.15"},
		},
	}
}

func encoded(it any) string {
	var text bytes.Buffer
	must(json.NewEncoder(&text).Encode(it))
	return text.String()
}

func same(is, expected any) {
	if !reflect.DeepEqual(is, expected) {
		_ = log.Output(2, fmt.Sprintf("%v is not %v", is, expected))
		os.Exit(1)
	}
}

func must(err error) {
	if err != nil {
		_ = log.Output(2, err.Error())
		os.Exit(1)
	}
}
