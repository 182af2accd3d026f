// Command manifest checks, without a cluster or an engine, what deploys sendcode: the compose file
// that the first argument names, by compose's own schema; and the kustomizations in the folders
// that the others name, built and each object compared strictly with the type of its kind. It is a
// module of its own, so that the service depends on none of this.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func main() {
	err := checkCompose(os.Args[1])
	for _, folder := range os.Args[2:] {
		err = errors.Join(err, checkKustomization(folder))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func checkKustomization(folder string) error {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	for _, o := range objects.Resources() {
		text, wrong := o.AsYAML()
		if wrong == nil {
			wrong = checkObject(o.GetApiVersion()+" "+o.GetKind(), text)
		}
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", o.CurId(), wrong))
		}
	}
	return err
}

func checkObject(kind string, text []byte) error {
	types := map[string]any{
		"v1 Namespace": &corev1.Namespace{}, "v1 ConfigMap": &corev1.ConfigMap{}, "v1 Service": &corev1.Service{},
		"v1 PersistentVolumeClaim":                 &corev1.PersistentVolumeClaim{},
		"v1 ServiceAccount":                        &corev1.ServiceAccount{},
		"apps/v1 StatefulSet":                      &appsv1.StatefulSet{},
		"apps/v1 Deployment":                       &appsv1.Deployment{},
		"batch/v1 Job":                             &batchv1.Job{},
		"batch/v1 CronJob":                         &batchv1.CronJob{},
		"rbac.authorization.k8s.io/v1 Role":        &rbacv1.Role{},
		"rbac.authorization.k8s.io/v1 RoleBinding": &rbacv1.RoleBinding{},
		"policy/v1 PodDisruptionBudget":            &policyv1.PodDisruptionBudget{},
		"networking.k8s.io/v1 NetworkPolicy":       &networkingv1.NetworkPolicy{},
	}
	into, known := types[kind]
	if !known {
		return errors.New("no type for " + kind)
	}
	return yaml.UnmarshalStrict(text, into)
}

func checkCompose(file string) error {
	_, err := loader.LoadWithContext(context.Background(),
		compose.ConfigDetails{ConfigFiles: []compose.ConfigFile{{Filename: file}}, WorkingDir: "."},
		func(o *loader.Options) {
			o.SetProjectName("sendcode", true)
			o.Interpolate.LookupValue = func(string) (string, bool) { return "set", true } // what an operator sets
		})
	return err
}
